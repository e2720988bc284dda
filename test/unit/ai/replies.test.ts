import { describe, expect, test } from "vitest";
import { encode, PIECES, PREFIX, prefix, REPLY } from "../../../scripts/simulators/script.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import {
  CODECS,
  decode,
  decodeDocument,
  REQUEST,
  readReply,
  startTestBench,
  TOKENS,
} from "./support.ts";

const ENDINGS = ["\n", "\r\n", "\r"];

describe.each(CODECS)("Golden transcript of %s", (_, encoderOf, mapping) => {
  const encoder = encoderOf("key");
  const events = encoder
    .events(PIECES, TOKENS, REQUEST)
    .flatMap((event, index) => (index === 1 ? [...encoder.idle, event] : [event]));

  /** The transcript in bytes. The line endings of its events take turns. */
  const bytes = (endings: readonly string[]) =>
    Buffer.from(
      events.map((event, index) => encode(event, endings[index % endings.length] ?? "\n")).join(""),
    );

  const read = (whole: Buffer, cuts: readonly number[]) =>
    decode(mapping, ...[0, ...cuts].map((cut, index) => whole.subarray(cut, cuts[index])));
  const expected = {
    text: REPLY,
    usage: { inputTokens: TOKENS.input, outputTokens: TOKENS.output },
    error: undefined,
  };

  test.each([...ENDINGS.map((ending) => [ending]), ENDINGS])(
    "decodes to the same reply if split at any byte, and at every byte, with line ending %j",
    (...endings) => {
      const whole = bytes(endings.flat());
      for (let cut = 0; cut <= whole.length; cut++) expect(read(whole, [cut])).toEqual(expected);
      expect(read(whole, [...whole.keys()])).toEqual(expected); // every byte alone
    },
  );

  test("[DONE] instead of the rest completes a reply of OpenAI's dialects only", () => {
    const cutShort = [...prefix(encoder.events(PIECES, TOKENS, REQUEST)), { data: "[DONE]" }]
      .map((event) => encode(event, "\n"))
      .join("");
    const { text, error } = read(Buffer.from(cutShort), []);
    expect(text).toBe(PREFIX);
    expect(error).toBe(mapping === openaiAdapter ? undefined : "broke off");
  });
});

/**
 * Values that replace each value of a reply. The only text among them differs from texts made of
 * the others.
 */
const SCALARS = [null, 7, -1.5, true, "odd", ""];
const ODD: unknown[] = [
  ...SCALARS,
  [],
  [null],
  ["odd"],
  {},
  { toString: 1 },
  { text: [{}] },
  [[{ type: 1 }]],
];
/** Text that was made of another value. The reply does not contain it. */
const CONVERTED = /object|null|undefined|true|NaN|\d/;

describe.each(CODECS)("Replies of %s with values of unexpected types", (_, encoderOf, mapping) => {
  const encoder = encoderOf("key");
  const parts = JSON.stringify([null, { type: "text", text: "odd" }]);
  const events = [
    ...encoder.idle,
    encoder.thinking,
    { data: encoder.delta("in parts").data.replace('"in parts"', parts) },
    ...encoder.events(PIECES, TOKENS, REQUEST),
  ];

  test("a stream yields text or an error, never converted values", () => {
    for (const [index, { event = "", data }] of events.entries()) {
      if (data === "[DONE]") continue;
      for (const changed of variants(JSON.parse(data))) {
        const frames = events.with(index, { event, data: JSON.stringify(changed) });
        const { text, usage, error } = decode(
          mapping,
          frames.map((frame) => encode(frame, "\n")).join(""),
        );
        expect(text, JSON.stringify(changed)).not.toMatch(CONVERTED);
        expect([undefined, "unreadable reply", "broke off"]).toContain(error);
        expectCounts(usage);
      }
    }
  });

  test("a complete reply yields text or an error, never converted values", () => {
    for (const changed of variants(encoder.whole(REPLY, TOKENS, REQUEST))) {
      const { text, usage } = decodeDocument(mapping, changed);
      expect(text, JSON.stringify(changed)).not.toMatch(CONVERTED);
      expectCounts(usage);
    }
  });
});

/** The variants of a document with one value replaced, for every value and every replacement. */
function* variants(document: unknown): Generator<unknown> {
  yield* ODD;
  if (typeof document !== "object" || document === null) return;
  for (const [key, value] of Object.entries(document)) {
    for (const changed of variants(value)) {
      yield Array.isArray(document)
        ? document.with(Number(key), changed)
        : { ...document, [key]: changed };
    }
  }
}

function expectCounts(usage: object | undefined): void {
  for (const count of Object.values(usage ?? {}))
    expect(Number.isInteger(count) && count >= 0).toBe(true);
}

test("Provider client: an unexpected error in one reply does not end others", async () => {
  const bench = await startTestBench("openai");
  const prompt = { ...bench.promptOf("silent-midway"), isStream: true };
  const reserve = () => {
    throw new Error("The reservation broke.");
  };
  expect(await readReply(bench.provider, prompt, reserve)).toMatchObject({ failure: "broke off" });
  expect(await bench.stream("plain")).toMatchObject({ text: REPLY });
});
