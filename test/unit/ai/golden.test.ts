import { describe, expect, test } from "vitest";
import { anthropicSpeaker } from "../../../scripts/simulators/anthropic.ts";
import { googleSpeaker } from "../../../scripts/simulators/google.ts";
import { mistralSpeaker, openaiSpeaker } from "../../../scripts/simulators/openai.ts";
import { encode, PIECES, PREFIX, prefix, REPLY } from "../../../scripts/simulators/play.ts";
import { anthropicParser } from "../../../services/ai/providers/anthropic.ts";
import { ReplyDecoder } from "../../../services/ai/providers/decode.ts";
import { googleParser } from "../../../services/ai/providers/google.ts";
import { openaiParser } from "../../../services/ai/providers/openai.ts";
import { DEFAULT_BOUNDS } from "../../../services/ai/providers/provider.ts";

const ASKED = { model: "simulated", stream: true, usage: true, said: "", input: "" };
const TOKENS = { input: 11, output: 22 };
const ENDINGS = ["\n", "\r\n", "\r"];
const RANDOM_CUTS = 20_000;

describe.each([
  ["openai", openaiSpeaker, openaiParser],
  ["openai-compatible", mistralSpeaker, openaiParser],
  ["anthropic", anthropicSpeaker, anthropicParser],
  ["google", googleSpeaker, googleParser],
] as const)("a golden transcript of %s", (_, speakerOf, mapping) => {
  const speaker = speakerOf("key");
  const events = speaker
    .events(PIECES, TOKENS, ASKED)
    .flatMap((event, index) => (index === 1 ? [...speaker.idle, event] : [event]));

  /** The transcript in bytes, each event with the next of the line endings, or all with one. */
  const bytes = (endings: readonly string[], shift = 0) =>
    Buffer.from(
      events.map((event, index) => encode(event, endings[(index + shift) % endings.length] ?? "\n")).join(""),
    );

  function read(whole: Buffer, cuts: readonly number[]) {
    const transcript = new ReplyDecoder(mapping, DEFAULT_BOUNDS.eventBytes);
    let text = "";
    for (const [index, cut] of [0, ...cuts].entries()) text += transcript.push(whole.subarray(cut, cuts[index]));
    text += transcript.end();
    return { text, usage: transcript.usage, error: transcript.error };
  }
  const expected = {
    text: REPLY,
    usage: { inputTokens: TOKENS.input, outputTokens: TOKENS.output },
    error: undefined,
  };

  test.each([...ENDINGS.map((ending) => [ending]), ENDINGS])(
    "reads the same cut at every byte, lines ended by %j",
    (...endings) => {
      const whole = bytes(endings.flat());
      for (let cut = 0; cut <= whole.length; cut++) expect(read(whole, [cut])).toEqual(expected);
    },
  );

  test("[DONE] instead of the rest finishes it with OpenAI's kind alone", () => {
    const cutShort = [...prefix(speaker.events(PIECES, TOKENS, ASKED)), { data: "[DONE]" }]
      .map((event) => encode(event, "\n"))
      .join("");
    const { text, error } = read(Buffer.from(cutShort), []);
    expect(text).toBe(PREFIX);
    expect(error?.kind).toBe(mapping === openaiParser ? undefined : "broke off");
  });

  test("reads the same cut at 20,000 random places", () => {
    const random = randomNumbers(7);
    for (let made = 0; made < RANDOM_CUTS; ) {
      const whole = bytes(ENDINGS, made);
      const cuts = Array.from({ length: 100 }, () => Math.floor(random() * whole.length)).sort((a, b) => a - b);
      expect(read(whole, cuts)).toEqual(expected);
      made += cuts.length;
    }
  });
});

/** The same numbers every time (mulberry32), so that a failure can be repeated. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
