import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { DialectEncoder } from "../../../scripts/simulators/dialect-encoder.ts";
import { PIECES, REPLY } from "../../../scripts/simulators/script.ts";
import { CASES } from "../../../scripts/simulators/simulator.ts";
import { DEFAULT_BOUNDS } from "../../../services/ai/providers/provider.ts";
import { bytesOf, type Frame, mutationsOf } from "./mutations.ts";
import { play } from "./played-reply.ts";
import { type Arrival, type Body, referenceVerdict } from "./reference-decoder.ts";
import { CODECS, REQUEST, TOKENS } from "./support.ts";

/** Reproduces a run. Another one tries other pairs of changes. */
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const FULL = Boolean(process.env.TEST_FULL);
const PAIRS = FULL ? 5_000 : 60;

beforeAll(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterAll(() => void vi.useRealTimers());

/** Numbers from 0 to 1 that depend on a seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const pick = <T>(items: readonly T[], random: () => number): T =>
  items[Math.floor(random() * items.length)] as T;

/** The good streams of a dialect: the events of some cases of its simulator. */
const GOOD = ["plain", "no-usage", "at-maximum", "no-done", "idle", "thinking", "usage-twice"];
const TYPES = ["text/event-stream", "text/event-stream; charset=utf-8", "application/json"];
const OTHER_TYPES = ["text/plain; charset=utf-8", "application/x-ndjson", ""];
const ENDINGS: Body["ending"][] = ["end", "reset", "silence"];

function framesOf(name: string, encoder: DialectEncoder): Frame[] {
  const events = encoder.events(PIECES, TOKENS, REQUEST);
  const changed = CASES[name]?.events?.(events, encoder) ?? events;
  return changed.map((event) => ({ ...event, lineEnd: encoder.lineEnd }));
}

/** What proxies do to a whole reply. */
const WHOLE: Record<string, (whole: string, encoder: DialectEncoder) => string> = {
  "as it is": (whole) => whole,
  "on several lines": (whole) => JSON.stringify(JSON.parse(whole), null, 2),
  "behind white space": (whole) => `\n \n${whole}\n`,
  "behind a byte order mark": (whole) => `\ufeff${whole}`,
  "before [DONE]": (whole) => `${whole}\n\ndata: [DONE]\n\n`,
  "in an event": (whole) => `data: ${whole}\n\n`,
  "cut in the middle": (whole) => whole.slice(0, whole.length / 2),
  "cut by one character": (whole) => whole.slice(0, -1),
  "an error": (_, encoder) => JSON.stringify(encoder.error("overloaded").body),
  "an error in a list": (_, encoder) => JSON.stringify([encoder.error("overloaded").body]),
  "an error page": () => "<html><body>502 Bad Gateway</body></html>",
  nothing: () => "",
  "with another end": (whole) =>
    whole.replace(/"(finish_reason|stop_reason|finishReason)":"\w+"/, '"$1":"network_error"'),
  "with the maximum as its end": (whole) =>
    whole.replace(/"(finish_reason|stop_reason|finishReason)":"\w+"/, '"$1":"MAX_TOKENS"'),
  "with counts of zero": (whole) => whole.replace(/("\w*(_tokens|TokenCount)"):\d+/g, "$1:0"),
};

/** How the bytes of frames arrive. Silence always stands between two arrivals. */
const CUTS: Record<string, (frames: Frame[], random: () => number) => Arrival[]> = {
  "one by one": (frames) =>
    frames.map((frame) => ({ bytes: bytesOf(frame), afterMs: frame.afterMs ?? 0 })),
  "at once": (frames) => {
    const arrivals: Arrival[] = [];
    for (const frame of frames) {
      const last = arrivals.at(-1);
      if (!last || frame.afterMs)
        arrivals.push({ bytes: bytesOf(frame), afterMs: frame.afterMs ?? 0 });
      else last.bytes = Buffer.concat([last.bytes, bytesOf(frame)]);
    }
    return arrivals;
  },
  "cut anywhere": (frames, random) =>
    frames.flatMap((frame) => {
      const bytes = bytesOf(frame);
      const at = Math.floor(random() * bytes.length);
      return [
        { bytes: bytes.subarray(0, at), afterMs: frame.afterMs ?? 0 },
        { bytes: bytes.subarray(at), afterMs: 0 },
      ];
    }),
};

describe.each(CODECS)("Mutated replies of %s", (dialect, encoderOf, adapter) => {
  const encoder = encoderOf("key");
  const mutations = mutationsOf(dialect, encoder);

  /** Compares what the provider client makes of a body with what the reference does. */
  async function compare(what: string, body: Body, type: string, isStream = true) {
    const expected = referenceVerdict(dialect, body, DEFAULT_BOUNDS);
    const { text, outcome, usage, failure } = await play(adapter, body, { isStream, type });
    const told = `FUZZ_SEED=${SEED}: ${what}, ${type}, ${body.ending}: ${failure}\n${body.arrivals.map(({ afterMs, bytes }) => `${afterMs ? `[${afterMs} ms]\n` : ""}${bytes}`).join("")}`;
    expect(expected.outcomes, told).toContain(outcome);
    if (isStream && expected.isTextCut) expect(text.startsWith(expected.text), told).toBe(true);
    else if (isStream) expect(text, told).toBe(expected.text);
    if (outcome !== "failed" && expected.outcomes.length === 1)
      expect(usage, told).toEqual(expected.usage);
    else if (!expected.isTextCut) expect([undefined, expected.usage], told).toContainEqual(usage);
  }

  const compareFrames = (what: string, frames: Frame[], random: () => number) => {
    const [how, cut] = pick(Object.entries(CUTS), random);
    const body = { arrivals: cut(frames, random), ending: pick(ENDINGS, random) };
    return compare(`${what}, ${how}`, body, pick([...TYPES, ...OTHER_TYPES], random));
  };

  test.each(GOOD)(
    "a valid stream is read, whatever its content type and chunks: %s",
    async (name) => {
      const random = randomOf(SEED);
      const frames = framesOf(name, encoder);
      for (const [how, cut] of Object.entries(CUTS)) {
        for (const type of [...TYPES, ...OTHER_TYPES]) {
          const body: Body = { arrivals: cut(frames, random), ending: "end" };
          const { text, outcome } = await play(adapter, body, { isStream: true, type });
          const good = name === "at-maximum" ? "limit" : "finished";
          expect({ text, outcome }, `${how}, ${type}`).toEqual({ text: REPLY, outcome: good });
          await compare(how, body, type);
        }
      }
    },
  );

  test("a stream with one change is read as by the reference decoder", async () => {
    const random = randomOf(SEED);
    for (const mutation of mutations) {
      const name = pick(GOOD, random);
      const frames = framesOf(name, encoder);
      const places = FULL ? [...frames.keys()] : [Math.floor(random() * frames.length)];
      for (const at of places) {
        const changed = mutation.change(frames, at);
        const what = `${name}, ${mutation.name} at ${at}`;
        if (changed) await compareFrames(what, changed, random);
      }
    }
  });

  test("a stream with several changes is read as by the reference decoder", async () => {
    for (let number = 0; number < PAIRS; number++) {
      const random = randomOf(SEED * 1_000_003 + number);
      const name = pick(GOOD, random);
      let frames = framesOf(name, encoder);
      const done: string[] = [];
      for (const mutation of [pick(mutations, random), pick(mutations, random)]) {
        const at = Math.floor(random() * frames.length);
        frames = mutation.change(frames, at) ?? frames;
        done.push(`${mutation.name} at ${at}`);
      }
      await compareFrames(`${number}: ${name}, ${done.join(", ")}`, frames, random);
    }
  });

  test("a complete reply is read as by the reference decoder, whatever its frame, content type and request", async () => {
    const whole = JSON.stringify(encoder.whole(REPLY, TOKENS, REQUEST));
    for (const [frame, write] of Object.entries(WHOLE)) {
      const bytes = Buffer.from(write(whole, encoder));
      for (const ending of ENDINGS) {
        for (const isStream of [false, true]) {
          const random = randomOf(SEED);
          const at = Math.floor(random() * bytes.length);
          const parts = [bytes.subarray(0, at), bytes.subarray(at)];
          const arrivals = parts.map((part) => ({ bytes: part, afterMs: 0 }));
          const type = pick([...TYPES, ...OTHER_TYPES], random);
          await compare(`${frame}, streamed: ${isStream}`, { arrivals, ending }, type, isStream);
        }
      }
    }
  });
});
