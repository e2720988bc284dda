import { describe, expect, test } from "vitest";
import type { SimulatedDialect } from "../../../scripts/simulators/simulator.ts";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import type { ProviderBounds } from "../../../services/ai/providers/provider.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import {
  type ScriptedResponse,
  type Step,
  startScriptedProvider,
} from "../../support/ai/scripted-provider.ts";
import { forSuite, forTest } from "../../support/suites.ts";
import { messageOf, readReply } from "./support.ts";

/** What a dialect sends for each part of a stream. */
type Vocabulary = {
  opening: string;
  text(text: string): string;
  /** A finish marker alone, and together with text. */
  marker(reason?: unknown): string;
  textWithMarker(text: string): string;
  /** Text, finish marker and usage in one event. Absent where the dialect has none for them. */
  textWithAll?(text: string): string;
  /** A finish marker and usage in one event without text. */
  markerWithUsage: string;
  /** A marker on a piece without text. */
  emptyWithMarker: string;
  reasoningWithMarker: string;
  usage: string;
  closing: string;
};

const frame = (document: object, name?: string) =>
  `${name ? `event: ${name}\n` : ""}data: ${JSON.stringify(document)}\n\n`;

const COUNTS = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 };
const chunk = (delta: object, finish_reason: unknown = null, usage?: object) =>
  frame({ choices: [{ index: 0, delta, finish_reason }], usage });
const openai: Vocabulary = {
  opening: chunk({ role: "assistant", content: "" }),
  text: (content) => chunk({ content }),
  marker: (reason = "stop") => chunk({}, reason),
  textWithMarker: (content) => chunk({ content }, "stop"),
  emptyWithMarker: chunk({ role: "assistant", content: "" }, "stop"),
  reasoningWithMarker: chunk({ reasoning_content: "Hm." }, "stop"),
  textWithAll: (content) => chunk({ content }, "stop", COUNTS),
  markerWithUsage: chunk({}, "stop", COUNTS),
  usage: frame({ choices: [], usage: COUNTS }),
  closing: "data: [DONE]\n\n",
};

const named = (document: { type: string }) => frame(document, document.type);
const delta = (delta: object) => named({ type: "content_block_delta", index: 0, delta } as never);
const messageDelta = (stop_reason: unknown, usage?: object) =>
  named({ type: "message_delta", delta: { stop_reason }, usage } as never);
const anthropic: Vocabulary = {
  opening: named({ type: "message_start", message: { usage: { input_tokens: 9 } } } as never),
  text: (text) => delta({ type: "text_delta", text }),
  marker: (reason = "end_turn") => messageDelta(reason),
  // It has no event for both: they arrive at once.
  textWithMarker: (text) => delta({ type: "text_delta", text }) + messageDelta("end_turn"),
  emptyWithMarker: messageDelta("end_turn"),
  reasoningWithMarker:
    delta({ type: "thinking_delta", thinking: "Hm." }) + messageDelta("end_turn"),
  markerWithUsage: messageDelta("end_turn", { output_tokens: 2 }),
  usage: messageDelta(null, { output_tokens: 2 }),
  closing: named({ type: "message_stop" }),
};

const candidate = (parts: object[], finishReason?: unknown, usageMetadata?: object) =>
  frame({
    candidates: [{ index: 0, content: { role: "model", parts }, finishReason }],
    usageMetadata,
  });
const METADATA = { promptTokenCount: 9, candidatesTokenCount: 2 };
const google: Vocabulary = {
  opening: candidate([]),
  text: (text) => candidate([{ text }]),
  marker: (reason = "STOP") => candidate([], reason),
  textWithMarker: (text) => candidate([{ text }], "STOP"),
  emptyWithMarker: candidate([], "STOP"),
  reasoningWithMarker: candidate([{ text: "Hm.", thought: true }], "STOP"),
  textWithAll: (text) => candidate([{ text }], "STOP", METADATA),
  markerWithUsage: candidate([], "STOP", METADATA),
  usage: frame({ usageMetadata: METADATA }),
  closing: "", // the end of the body
};

const DIALECTS: { dialect: SimulatedDialect; words: Vocabulary }[] = [
  { dialect: "openai", words: openai },
  { dialect: "openai-compatible", words: openai },
  { dialect: "anthropic", words: anthropic },
  { dialect: "google", words: google },
];

const upstream = await forSuite(startScriptedProvider());
const catalogue = readCatalogue();

/** Far more than any stream of this suite takes. */
const LONG_MS = 60_000;
const SETTING_MS = 200;

/** Opens the provider of a dialect of the shipped catalogue, and reads one reply. */
async function play(
  dialect: SimulatedDialect,
  script: ScriptedResponse,
  { isStream = true, ...limits }: Partial<ProviderBounds> & { isStream?: boolean } = {},
) {
  const entry = catalogue.providers.find((provider) => provider.dialect === dialect);
  const bounds = { backoffMs: 1, idleMs: LONG_MS, afterOutcomeMs: LONG_MS, ...limits };
  const providers = openProviders(catalogue, upstream.env, bounds);
  const provider = providers.byId.get(entry?.id ?? "");
  if (!entry || !provider) throw new Error(`No provider speaks ${dialect}.`);
  await forTest(providers);
  const maxTokens = upstream.add([script]);
  const messages = [messageOf("user", "Hi there")];
  return readReply(provider, { model: entry.models[0], messages, maxTokens, isStream });
}

const events = (...steps: Step[]): ScriptedResponse => ({
  status: 200,
  headers: { "content-type": "text/event-stream" },
  steps,
});
const bytes = (...parts: string[]): Step => ({ bytes: parts.join("") });
const closed: Step = { end: "close body" };
const reset: Step = { end: "reset" };
/** Lets what was written arrive before the connection is reset. */
const pause: Step = { waitMs: 30 };

describe.each(DIALECTS)("Provider stream of $dialect: end of the reply", ({ dialect, words }) => {
  const { opening, text, marker, textWithMarker, emptyWithMarker, usage, closing } = words;
  const { markerWithUsage } = words;
  const hasClosing = closing !== "";

  test.each([
    {
      what: "a marker alone, then the end of the body",
      parts: [text("Hi"), marker()],
      ending: [closed],
    },
    {
      what: "a marker with text, then the end of the body",
      parts: [textWithMarker("Hi")],
      ending: [closed],
    },
    { what: "a marker alone, then a reset", parts: [text("Hi"), marker()], ending: [pause, reset] },
    {
      what: "a marker with text and usage, then a reset",
      parts: [textWithMarker("Hi"), usage],
      ending: [pause, reset],
    },
    {
      what: "a marker on every piece, then the end of the body",
      parts: [textWithMarker("H"), textWithMarker("i")],
      ending: [closed],
    },
    {
      what: "a first marker without text",
      parts: [emptyWithMarker, text("Hi"), marker()],
      ending: [closed],
    },
    {
      what: "a first marker with reasoning",
      parts: [words.reasoningWithMarker, text("Hi"), marker()],
      ending: [closed],
    },
    { what: "text after the marker", parts: [text("H"), marker(), text("i")], ending: [closed] },
  ])("is complete: $what", async ({ parts, ending }) => {
    const outcome = await play(dialect, events(bytes(opening, ...parts), ...ending));
    expect(outcome).toMatchObject({ text: "Hi" });
    expect(outcome.failure).toBeUndefined();
  });

  test.each([
    {
      what: "no marker, then the end of the body",
      parts: [text("Hi")],
      ending: [closed],
      received: "Hi",
    },
    {
      what: "a first marker without text, then a reset",
      parts: [emptyWithMarker],
      ending: [pause, reset],
      received: "",
    },
    {
      what: "a first marker, text and the end of the body",
      parts: [emptyWithMarker, text("Hi")],
      ending: [closed],
      received: "Hi",
    },
    {
      what: "a first marker, text and a reset",
      parts: [emptyWithMarker, text("Hi")],
      ending: [pause, reset],
      received: "Hi",
    },
    {
      what: "text after the marker, then a reset",
      parts: [text("H"), marker(), text("i")],
      ending: [pause, reset],
      received: "Hi",
    },
    {
      what: "a marker on every piece, then a reset",
      parts: [textWithMarker("H"), textWithMarker("i")],
      ending: [pause, reset],
      received: "Hi",
    },
  ])("is broken off: $what", async ({ parts, ending, received }) => {
    const outcome = await play(dialect, events(bytes(opening, ...parts), ...ending));
    expect(outcome).toEqual({ text: received, failure: "broke off" });
  });

  test.runIf(hasClosing)("is complete at the closing frame, without waiting for more", async () => {
    for (const parts of [
      [text("Hi"), marker()],
      [textWithMarker("Hi")],
      [textWithMarker("H"), textWithMarker("i")],
    ])
      expect(await play(dialect, events(bytes(opening, ...parts, closing)))).toMatchObject({
        text: "Hi",
      });
  });

  test("a marker and usage are confirmed by a short silence", async () => {
    const limits = { afterOutcomeMs: SETTING_MS };
    for (const parts of [
      [text("Hi"), marker(), usage],
      [text("Hi"), words.markerWithUsage],
      [textWithMarker("Hi"), usage],
    ])
      expect(await play(dialect, events(bytes(opening, ...parts)), limits)).toMatchObject({
        text: "Hi",
      });
  });

  test("a marker alone is confirmed by a silence of the idle limit", async () => {
    const start = performance.now();
    const limits = { idleMs: SETTING_MS, afterOutcomeMs: 1 };
    const outcome = await play(dialect, events(bytes(opening, text("Hi"), marker())), limits);
    expect(outcome).toMatchObject({ text: "Hi" });
    expect(outcome.failure).toBeUndefined();
    expect(performance.now() - start).toBeGreaterThanOrEqual(SETTING_MS - 5);
  });

  test.each([
    {
      what: "a marker on the first, empty piece",
      first: [emptyWithMarker],
      rest: [text("Hi"), marker()],
    },
    {
      what: "a marker with reasoning",
      first: [words.reasoningWithMarker],
      rest: [text("Hi"), marker()],
    },
    { what: "a marker on every piece", first: [textWithMarker("H")], rest: [textWithMarker("i")] },
    {
      what: "a marker behind every piece",
      first: [text("H"), marker()],
      rest: [text("i"), marker()],
    },
    {
      what: "a marker on every piece, empty ones too",
      first: [textWithMarker("H"), emptyWithMarker],
      rest: [textWithMarker("i"), emptyWithMarker],
    },
    {
      what: "usage before the marker",
      first: [usage, text("H"), marker()],
      rest: [text("i"), marker()],
    },
    {
      what: "usage before and with the marker",
      first: [usage, text("H"), markerWithUsage],
      rest: [text("i"), marker()],
    },
    {
      what: "usage with a marker before any text",
      first: [markerWithUsage, text("H"), marker(), usage],
      rest: [text("i"), marker()],
    },
    {
      what: "usage with a marker that is not the first",
      first: [text("H"), marker(), text("i"), markerWithUsage],
      rest: [text("!"), marker()],
      received: "Hi!",
    },
  ])("continues after a pause: $what", async ({ first, rest, received = "Hi" }) => {
    const steps = [bytes(opening, ...first), { waitMs: SETTING_MS }, bytes(...rest), closed];
    const outcome = await play(dialect, events(...steps), { afterOutcomeMs: 1 });
    expect(outcome).toMatchObject({ text: received });
    expect(outcome.failure).toBeUndefined();
  });

  test.each([
    ["on every piece", [textWithMarker("H"), textWithMarker("i")]],
    ["behind every piece", [text("H"), marker(), text("i"), marker()]],
    ["on the first, empty piece and the last", [emptyWithMarker, text("Hi"), marker()]],
  ])("a marker %s is confirmed by a silence of the idle limit", async (_, parts) => {
    const limits = { idleMs: SETTING_MS, afterOutcomeMs: 1 };
    const outcome = await play(dialect, events(bytes(opening, ...parts)), limits);
    expect(outcome).toMatchObject({ text: "Hi" });
    expect(outcome.failure).toBeUndefined();
  });

  test.each([
    ["no text", [emptyWithMarker]],
    ["reasoning alone", [words.reasoningWithMarker]],
    ["text after the marker", [text("H"), marker(), text("i")]],
  ])("silence after a marker is a timeout: %s", async (_, parts) => {
    const limits = { idleMs: SETTING_MS, afterOutcomeMs: 1 };
    const outcome = await play(dialect, events(bytes(opening, ...parts)), limits);
    expect(outcome).toMatchObject({ failure: "timed out" });
  });
});

/** The dialects that have one event for text and marker. */
const WITH_BOTH = DIALECTS.filter(({ dialect }) => dialect !== "anthropic");

test.each(WITH_BOTH)(
  "Provider stream of $dialect: a marker with text waits for the idle limit, and a reset during the wait is a failure",
  async ({ dialect, words }) => {
    const piece = bytes(words.textWithMarker("Hi"));
    const limits = { idleMs: SETTING_MS, afterOutcomeMs: 1 };
    const start = performance.now();
    expect(await play(dialect, events(piece), limits)).toMatchObject({ text: "Hi" });
    expect(performance.now() - start).toBeGreaterThanOrEqual(SETTING_MS - 5);
    expect(await play(dialect, events(piece, pause, reset))).toEqual({
      text: "Hi",
      failure: "broke off",
    });
  },
);

/**
 * The dialects that have one event for text, marker and usage. A server may send all in every one.
 */
const WITH_ALL = DIALECTS.flatMap(({ dialect, words: { textWithAll, ...words } }) =>
  textWithAll ? [{ dialect, words, textWithAll }] : [],
);

describe.each(WITH_ALL)(
  "Provider stream of $dialect: a marker and usage on every piece",
  ({ dialect, words, textWithAll }) => {
    const limits = { idleMs: 3 * SETTING_MS, afterOutcomeMs: 1 };
    const gap: Step = { waitMs: SETTING_MS };
    const pieces = [
      bytes(textWithAll("H")),
      gap,
      bytes(textWithAll("e")),
      gap,
      bytes(textWithAll("y")),
    ];
    const complete = { text: "Hey", usage: { inputTokens: 9, outputTokens: 2 } };

    test.each([
      { how: "the end of the body", ending: [closed] },
      { how: "a silence of the idle limit", ending: [] },
      { how: "usage and the end of the body", ending: [gap, bytes(words.usage), closed] },
    ])("continues after pauses, until $how", async ({ ending }) => {
      expect(await play(dialect, events(...pieces, ...ending), limits)).toEqual(complete);
    });

    test.each([
      { after: "the first piece", steps: [bytes(textWithAll("H"))], text: "H" },
      { after: "several pieces", steps: pieces, text: "Hey" },
    ])("is broken off by a reset after $after", async ({ steps, text }) => {
      const outcome = await play(dialect, events(...steps, pause, reset), limits);
      expect(outcome).toEqual({ text, failure: "broke off" });
    });

    test.runIf(words.closing !== "")("ends at the closing frame", async () => {
      const script = events(...pieces, bytes(words.closing));
      expect(await play(dialect, script, { afterOutcomeMs: 1 })).toEqual(complete);
    });

    test("a reply that was not requested as a stream is complete with its only document", async () => {
      const document = textWithAll("Hi").replace(/^data: /, "");
      const whole: ScriptedResponse = {
        status: 200,
        headers: { "content-type": "application/json" },
        steps: [bytes(document), pause, reset],
      };
      expect(await play(dialect, whole, { isStream: false })).toMatchObject({ text: "Hi" });
    });
  },
);

test.each([
  {
    what: "a document",
    error: '{"error":{"code":503,"status":"UNAVAILABLE"}}\n',
    failure: "overloaded",
  },
  { what: "a document without a line end", error: '{"error":{"code":503}}', failure: "overloaded" },
  { what: "a line", error: "Service Unavailable\n", failure: "overloaded" },
])(
  "Provider stream: an error outside of events explains an interruption and a silence: $what",
  async ({ error, failure }) => {
    const parts = bytes(openai.opening, openai.text("Hi"), error);
    const outcome = { text: "Hi", failure };
    expect(await play("openai", events(parts, pause, reset))).toEqual(outcome);
    expect(await play("openai", events(parts), { idleMs: SETTING_MS })).toEqual(outcome);
  },
);

test("Provider stream: error words after the end are ignored, however the body ends", async () => {
  const { opening, text, markerWithUsage } = openai;
  const parts = bytes(opening, text("Hi"), markerWithUsage, "Service Unavailable\n");
  const limits = { idleMs: SETTING_MS, afterOutcomeMs: SETTING_MS };
  for (const ending of [[], [closed], [pause, reset]]) {
    const { text: received, failure } = await play("openai", events(parts, ...ending), limits);
    expect({ received, failure }).toEqual({ received: "Hi", failure: undefined });
  }
});
