import { describe, expect, test } from "vitest";
import { encode, PIECES, PREFIX, prefix, REPLY } from "../../../scripts/simulators/script.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import { CODECS, decode, REQUEST, TOKENS } from "./support.ts";

const ENDINGS = ["\n", "\r\n", "\r"];

describe.each(CODECS)("Golden transcript of %s", (_, encoderOf, mapping) => {
  const encoder = encoderOf("key");
  const events = encoder
    .events(PIECES, TOKENS, REQUEST)
    .flatMap((event, index) => (index === 1 ? [...encoder.idle, event] : [event]));

  /** The transcript in bytes. The line endings of its events take turns. */
  const bytes = (endings: readonly string[]) =>
    Buffer.from(events.map((event, index) => encode(event, endings[index % endings.length] ?? "\n")).join(""));

  const read = (whole: Buffer, cuts: readonly number[]) =>
    decode(mapping, ...[0, ...cuts].map((cut, index) => whole.subarray(cut, cuts[index])));
  const expected = { text: REPLY, usage: { inputTokens: TOKENS.input, outputTokens: TOKENS.output }, error: undefined };

  test.each([...ENDINGS.map((ending) => [ending]), ENDINGS])(
    "decodes the same if cut at any byte, and at all, line ending %j",
    (...endings) => {
      const whole = bytes(endings.flat());
      for (let cut = 0; cut <= whole.length; cut++) expect(read(whole, [cut])).toEqual(expected);
      expect(read(whole, [...whole.keys()])).toEqual(expected); // every byte alone
    },
  );

  test("[DONE] in place of the rest completes a reply of OpenAI's dialects only", () => {
    const cutShort = [...prefix(encoder.events(PIECES, TOKENS, REQUEST)), { data: "[DONE]" }]
      .map((event) => encode(event, "\n"))
      .join("");
    const { text, error } = read(Buffer.from(cutShort), []);
    expect(text).toBe(PREFIX);
    expect(error).toBe(mapping === openaiAdapter ? undefined : "broke off");
  });
});
