import { describe, expect, test } from "vitest";
import { argumentsOf, CALLING } from "../../../scripts/simulators/dialect-encoder.ts";
import { encode } from "../../../scripts/simulators/script.ts";
import type { Adapter } from "../../../services/ai/providers/adapter.ts";
import { ReplyDecoder } from "../../../services/ai/providers/decode.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import type { Piece } from "../../../services/ai/providers/provider.ts";
import { CODECS, framesOf } from "./support.ts";

const ALL = { reasoning: true, toolCalls: true };
type ReadCall = { id: string; name: string; arguments: string };

/** Decodes a stream with everything that is wanted of it. */
function read(adapter: Adapter, ...parts: (string | Uint8Array)[]) {
  const decoder = new ReplyDecoder(adapter, true, ALL);
  const folded = { text: "", reasoning: "", calls: [] as ReadCall[] };
  const add = (piece: Piece) => {
    if (piece.kind !== "tool-call") {
      expect(piece.text.isWellFormed()).toBe(true);
      folded[piece.kind] += piece.text;
      return;
    }
    const { index, id = "", name = "", arguments: json } = piece;
    expect(json.isWellFormed()).toBe(true);
    const known = folded.calls[index];
    if (known) known.arguments += json;
    else folded.calls[index] = { id, name, arguments: json };
  };
  const take = (text: string) => {
    for (const piece of decoder.takePieces()) add(piece);
    folded.text += text;
  };
  for (const part of parts) take(decoder.push(Buffer.from(part)));
  take(decoder.end());
  const error = decoder.error?.kind;
  for (const piece of error ? [] : decoder.lastPieces()) add(piece);
  return { ...folded, finish: decoder.finishReason, error };
}

const complete = {
  text: CALLING.text,
  reasoning: CALLING.thoughts.join(""),
  finish: "tool_calls",
  error: undefined,
};

describe.each(CODECS)("Tool stream of %s", (dialect, encoderOf, adapter) => {
  const { calling, lineEnd } = encoderOf("key");
  const bytes = Buffer.from(calling.events.map((event) => encode(event, lineEnd)).join(""));

  test("is read completely, wherever it is split in two", () => {
    for (let at = 1; at < bytes.length; at++) {
      const { calls, ...reply } = read(adapter, bytes.subarray(0, at), bytes.subarray(at));
      expect(reply).toEqual(complete);
      expect(calls.map(({ arguments: json }) => JSON.parse(json))).toEqual(
        CALLING.calls.map((call) => JSON.parse(argumentsOf(call))),
      );
      expect(calls.map(({ name }) => name)).toEqual(["look_up", "look_up"]);
    }
  });

  test("is never complete without its end", () => {
    const end = bytes.indexOf(/google/.test(dialect) ? '"finishReason"' : 'tool_calls"}');
    const marker = end > 0 ? end : bytes.indexOf("message_delta");
    for (let at = 1; at < marker; at += 7)
      expect(read(adapter, bytes.subarray(0, at)).error, String(at)).toBeDefined();
  });
});

/** Deltas of tool calls as servers have sent them, and the calls. */
const DELTAS: [what: string, deltas: object[][], calls: [name: string, json: string][]][] = [
  [
    "no index",
    [
      [{ id: "1", function: { name: "a", arguments: '{"x":' } }],
      [{ function: { arguments: "1}" } }],
    ],
    [["a", '{"x":1}']],
  ],
  [
    "an index that is text at first",
    [
      [{ index: "0", id: "1", function: { name: "a", arguments: '{"x":' } }],
      [{ index: 0, function: { arguments: "1}" } }],
    ],
    [["a", '{"x":1}']],
  ],
  [
    "an index of 0 for every call",
    [
      [{ index: 0, id: "1", function: { name: "a", arguments: "{}" } }],
      [{ index: 0, id: "2", function: { name: "b", arguments: "{}" } }],
    ],
    [
      ["a", "{}"],
      ["b", "{}"],
    ],
  ],
  [
    "the same id for every call",
    [
      [{ index: 0, id: "1", function: { name: "a", arguments: "{}" } }],
      [{ index: 1, id: "1", function: { name: "b", arguments: "{}" } }],
    ],
    [
      ["a", "{}"],
      ["b", "{}"],
    ],
  ],
  [
    "the same index and id for every call",
    [
      [{ index: 0, id: "1", function: { name: "a", arguments: "{}" } }],
      [{ index: 0, id: "1", function: { name: "b", arguments: "{}" } }],
    ],
    [
      ["a", "{}"],
      ["b", "{}"],
    ],
  ],
  [
    "id and name again at the end",
    [
      [{ index: 0, id: "1", function: { name: "a", arguments: "{}" } }],
      [{ index: 0, id: "1", function: { name: "a", arguments: "" } }],
    ],
    [["a", "{}"]],
  ],
  [
    "neither index nor id",
    [
      [{ function: { name: "a", arguments: "{}" } }],
      [{ function: { name: "a", arguments: "{}" } }],
    ],
    [
      ["a", "{}"],
      ["a", "{}"],
    ],
  ],
  [
    "a new id with every piece",
    [
      [{ index: 0, id: "1", function: { name: "a", arguments: '{"x"' } }],
      [{ index: 0, id: "2", function: { arguments: ":1}" } }],
    ],
    [["a", '{"x":1}']],
  ],
  [
    "the name with every piece",
    [
      [{ index: 0, id: "1", function: { name: "a", arguments: '{"x"' } }],
      [{ index: 0, id: "1", function: { name: "a", arguments: ":1}" } }],
    ],
    [["a", '{"x":1}']],
  ],
  [
    "the name after the id",
    [[{ index: 0, id: "1" }], [{ index: 0, function: { name: "a", arguments: "{}" } }]],
    [["a", "{}"]],
  ],
  [
    "arguments as an object",
    [[{ index: 0, function: { name: "a", arguments: { x: 1 } } }]],
    [["a", '{"x":1}']],
  ],
  [
    "no arguments",
    [[{ index: 0, id: "1", function: { name: "a", arguments: "" } }]],
    [["a", "{}"]],
  ],
];

const framesFor = (deltas: object[][], finish: object[]) =>
  framesOf(
    ...deltas.map((tool_calls) => ({ choices: [{ index: 0, delta: { tool_calls } }] })),
    ...finish,
  );
const FINISH = { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] };

test.each(DELTAS)(
  "Tool stream of a compatible server: reads calls with %s",
  (_what, deltas, calls) => {
    const reply = read(openaiAdapter, `${framesFor(deltas, [FINISH])}data: [DONE]\n\n`);
    expect(reply).toMatchObject({ finish: "tool_calls", error: undefined });
    expect(reply.calls.map((call) => [call.name, call.arguments])).toEqual(calls);
    const ids = reply.calls.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length); // requests with an id twice are rejected
    expect(ids).not.toContain("");
  },
);

test("Tool stream of a compatible server: [DONE] instead of a finish marker ends complete calls only", () => {
  const begin = [{ index: 0, id: "1", function: { name: "a", arguments: '{"x":' } }];
  const rest = [{ index: 0, function: { arguments: "1}" } }];
  const done = "data: [DONE]\n\n";
  expect(read(openaiAdapter, framesFor([begin], []) + done).error).toBe("broke off");
  expect(read(openaiAdapter, framesFor([begin, rest], []) + done)).toMatchObject({
    finish: "tool_calls",
    error: undefined,
  });
});

test("Tool stream: a finish marker of tool calls without any call is unreadable", () => {
  const text = { choices: [{ index: 0, delta: { content: "Let me look." } }] };
  expect(read(openaiAdapter, framesOf(text, FINISH)).error).toBe("unreadable reply");
});
