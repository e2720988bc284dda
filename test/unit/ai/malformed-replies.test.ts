import { describe, expect, test } from "vitest";
import { anthropicEncoder } from "../../../scripts/simulators/anthropic.ts";
import { googleEncoder } from "../../../scripts/simulators/google.ts";
import { mistralEncoder, openaiEncoder } from "../../../scripts/simulators/openai.ts";
import { encode, PIECES, REPLY } from "../../../scripts/simulators/script.ts";
import { anthropicParser } from "../../../services/ai/providers/anthropic.ts";
import { parseDocument, ReplyDecoder, toUsage } from "../../../services/ai/providers/decode.ts";
import { googleParser } from "../../../services/ai/providers/google.ts";
import { openaiParser } from "../../../services/ai/providers/openai.ts";
import { DEFAULT_BOUNDS, type Prompt } from "../../../services/ai/providers/provider.ts";
import { promptOf, readStream, startBench } from "./support.ts";

const REQUEST = { model: "simulated", stream: true, usage: true, lastMessage: "", input: "" };
const TOKENS = { input: 11, output: 22 };
/** What may stand anywhere instead of anything. The one piece of text among them is told from the others. */
const ODD: unknown[] = [
  null,
  7,
  -1.5,
  true,
  "odd",
  "",
  [],
  [null],
  ["odd"],
  {},
  { toString: 1 },
  { text: [{}] },
  [[{ type: 1 }]],
];
/** Text that was made of something else. The reply has none of that in it. */
const MADE_UP = /object|null|undefined|true|NaN|\d/;

describe.each([
  ["openai", openaiEncoder, openaiParser],
  ["openai-compatible", mistralEncoder, openaiParser],
  ["anthropic", anthropicEncoder, anthropicParser],
  ["google", googleEncoder, googleParser],
] as const)("%s replies with values of unexpected types", (_, encoderOf, mapping) => {
  const encoder = encoderOf("key");
  const parts = JSON.stringify([null, { type: "text", text: "odd" }]);
  const events = [
    ...encoder.idle,
    encoder.thinking,
    { data: encoder.delta("in parts").data.replace('"in parts"', parts) },
    ...encoder.events(PIECES, TOKENS, REQUEST),
  ];

  test("a stream gives text or an error, never converted values", () => {
    for (const [index, { event = "", data }] of events.entries()) {
      if (data === "[DONE]") continue;
      for (const changed of variants(JSON.parse(data))) {
        const transcript = new ReplyDecoder(mapping, DEFAULT_BOUNDS.eventBytes);
        const frames = events.with(index, { event, data: JSON.stringify(changed) });
        const bytes = Buffer.from(frames.map((frame) => encode(frame, "\n")).join(""));
        const text = transcript.push(bytes) + transcript.end();
        expect(text, JSON.stringify(changed)).not.toMatch(MADE_UP);
        expect([undefined, "unreadable reply", "broke off"]).toContain(transcript.error?.kind);
        expectCounts(transcript.usage);
      }
    }
  });

  test("a complete reply gives text or an error, never converted values", () => {
    for (const changed of variants(encoder.whole(REPLY, TOKENS, REQUEST))) {
      const { text = "", usage } = parseDocument(JSON.stringify(changed), mapping.parseBody);
      expect(text, JSON.stringify(changed)).not.toMatch(MADE_UP);
      expectCounts(toUsage(usage));
    }
  });
});

/** Documents that have one odd value in the place of one of theirs, for every place and every odd value. */
function* variants(document: unknown): Generator<unknown> {
  yield* ODD;
  if (typeof document !== "object" || document === null) return;
  for (const [key, value] of Object.entries(document)) {
    for (const changed of variants(value)) {
      yield Array.isArray(document) ? document.with(Number(key), changed) : { ...document, [key]: changed };
    }
  }
}

function expectCounts(usage: object | undefined): void {
  for (const count of Object.values(usage ?? {})) expect(Number.isInteger(count) && count >= 0).toBe(true);
}

test("an unexpected error while one reply is read does not end others", async () => {
  const bench = await startBench("openai");
  const observer = {
    onSent() {},
    onDecoded() {
      throw new Error("The observer broke.");
    },
    onUsage() {},
  };
  const observed = {
    ...bench.provider,
    stream: (prompt: Prompt, signal: AbortSignal) => bench.provider.stream(prompt, signal, observer),
  };
  expect(await readStream(observed, promptOf(bench, "case: silent-midway"))).toMatchObject({ failure: "broke off" });
  expect(await readStream(bench.provider, promptOf(bench, "case: plain"))).toMatchObject({ text: REPLY });
  await bench.close();
});
