import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { DialectEncoder } from "../../../scripts/simulators/dialect-encoder.ts";
import { PIECES, REPLY } from "../../../scripts/simulators/script.ts";
import { CASES } from "../../../scripts/simulators/simulator.ts";
import { DEFAULT_BOUNDS } from "../../../services/ai/providers/provider.ts";
import { times } from "../../support/until.ts";
import { bytesOf, type Frame, type Mutation, mutationsOf } from "./mutations.ts";
import { play } from "./played-reply.ts";
import { type Arrival, type Body, referenceVerdict } from "./reference-decoder.ts";
import { CODECS, REQUEST, TOKENS } from "./support.ts";

/** Reproduces a run. Another one tries other pairs of changes. */
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const PAIRS = process.env.TEST_FULL ? 20_000 : 300;

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

describe.each(CODECS)("Replies of %s, changed", (dialect, encoderOf, adapter) => {
  const encoder = encoderOf("key");
  const mutations = mutationsOf(dialect, encoder);

  /** Compares what the provider client makes of a body with what the reference does. */
  async function compare(what: string, body: Body, type: string, isStream = true) {
    const expected = referenceVerdict(dialect, body, DEFAULT_BOUNDS);
    const { text, outcome, usage, failure } = await play(adapter, body, { isStream, type });
    const told = `${what}, ${type}, ${body.ending}: ${failure}\n${body.arrivals.map(({ afterMs, bytes }) => `${afterMs ? `[${afterMs} ms]\n` : ""}${bytes}`).join("")}`;
    expect(expected.outcomes, told).toContain(outcome);
    if (isStream) expect(text, told).toBe(expected.text);
    if (outcome !== "failed" && expected.outcomes.length === 1)
      expect(usage, told).toEqual(expected.usage);
    else expect([undefined, expected.usage], told).toContainEqual(usage);
  }

  const compareFrames = (what: string, frames: Frame[], random: () => number) => {
    const [how, cut] = pick(Object.entries(CUTS), random);
    const body = { arrivals: cut(frames, random), ending: pick(ENDINGS, random) };
    return compare(`${what}, ${how}`, body, pick([...TYPES, ...OTHER_TYPES], random));
  };

  test.each(GOOD)("a good stream is read, whatever its label and its cuts: %s", async (name) => {
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
  });

  test("a stream with one change is read as the reference does", async () => {
    const random = randomOf(SEED);
    for (const mutation of mutations) {
      const name = pick(GOOD, random);
      const frames = framesOf(name, encoder);
      for (const at of frames.keys()) {
        const changed = mutation.change(frames, at);
        const what = `FUZZ_SEED=${SEED}: ${name}, ${mutation.name} at ${at}`;
        if (changed) await compareFrames(what, changed, random);
      }
    }
  });

  test("a stream with several changes is read as the reference does", async () => {
    for (const number of times(PAIRS, (index) => index)) {
      const random = randomOf(SEED * 1_000_003 + number);
      const name = pick(GOOD, random);
      let frames = framesOf(name, encoder);
      const done: string[] = [];
      for (const mutation of times<Mutation>(2, () => pick(mutations, random))) {
        const at = Math.floor(random() * frames.length);
        frames = mutation.change(frames, at) ?? frames;
        done.push(`${mutation.name} at ${at}`);
      }
      await compareFrames(
        `FUZZ_SEED=${SEED}, ${number}: ${name}, ${done.join(", ")}`,
        frames,
        random,
      );
    }
  });
});
