import { describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { SIMULATED_DIALECTS } from "../../../scripts/simulators/simulator.ts";
import type { CallProgress, ReplyEvent } from "../../../services/ai/providers/provider.ts";
import { startSuiteBench } from "./support.ts";

/** Adjacent events of the same kind are one: text arrives in any number of pieces. */
const sequenceOf = (events: readonly (CallProgress | ReplyEvent)[]) =>
  events.map(({ kind }) => kind).filter((kind, index, kinds) => kind !== kinds[index - 1]);

describe.each(SIMULATED_DIALECTS)("Reply events of %s", async (dialect) => {
  const bench = await startSuiteBench(dialect);

  /** Reads the events of a case up to its end or failure. */
  async function eventsOf(name: string, isStream: boolean) {
    const events: (CallProgress | ReplyEvent)[] = [];
    const onProgress = (progress: CallProgress) => events.push(progress);
    const prompt = { ...bench.promptOf(name), isStream };
    let failure: unknown;
    try {
      for await (const event of bench.provider(prompt, new AbortController().signal, {
        onProgress,
      }))
        events.push(event);
    } catch (error) {
      failure = error;
    }
    return { events, failure };
  }

  test.each([true, false])(
    "and progress arrive in the order sending, answered, receiving, text, usage, finished (stream: %s)",
    async (isStream) => {
      const { events } = await eventsOf("plain", isStream);
      expect(sequenceOf(events)).toEqual([
        "sending",
        "answered",
        "receiving",
        "text",
        "usage",
        "finished",
      ]);
      const text = events.map((event) => (event.kind === "text" ? event.text : "")).join("");
      expect(text).toBe(REPLY);
      expect(events.at(-1)).toMatchObject({ kind: "finished", reason: "stop" });
    },
  );

  test("contain only the first response of several attempts", async () => {
    const { events } = await eventsOf("overloaded-once (events)", true);
    const kinds = ["sending", "answered", "retrying", "receiving", "text", "usage", "finished"];
    expect(sequenceOf(events)).toEqual(kinds);
    expect(events.filter(({ kind }) => kind === "answered")).toHaveLength(1);
  });

  test.each([
    { name: "bad-key", kinds: ["sending", "answered"] },
    { name: "reset", kinds: ["sending", "retrying"] },
    { name: "reset-midway", kinds: ["sending", "answered", "receiving", "text"] },
  ])("never contain finished if the reply fails: $name", async ({ name, kinds }) => {
    const { events, failure } = await eventsOf(name, true);
    expect(sequenceOf(events)).toEqual(kinds);
    expect(failure).toMatchObject({ name: "ProviderError" });
  });

  test("contain the time spent on decoding so far", async () => {
    const { events } = await eventsOf("plain", true);
    const times = events.flatMap((event) => ("decodingMs" in event ? [event.decodingMs] : []));
    expect(times.every((time) => time > 0)).toBe(true);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  });
});
