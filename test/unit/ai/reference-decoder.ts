import type { SimulatedDialect } from "../../../scripts/simulators/simulator.ts";
import type { Usage } from "../../../services/ai/providers/provider.ts";

/** Bytes of a body, and the silence before them in ms. */
export type Arrival = { bytes: Buffer; afterMs: number };
/** A body as it arrives, and what comes then: its end, a reset of the connection, or nothing. */
export type Body = { arrivals: Arrival[]; ending: "end" | "reset" | "silence" };

export type Outcome = "finished" | "limit" | "failed";
/** The result that a reader of a body must have. */
export type Verdict = {
  /**
   * All of it; only its beginning if a finish marker has named a failure: more may be read or not.
   */
  text: string;
  isTextCut: boolean;
  /** One, or several where the promises leave it open. */
  outcomes: Outcome[];
  /** The tokens that were reported; undefined if they must be estimated. */
  usage: Usage | undefined;
};

/** The limits of a reader, in ms: after the proof of an end, and between two pieces. */
export type Limits = { afterOutcomeMs: number; idleMs: number };

/**
 * How far a reply has come.
 * - `open`: no finish marker has come.
 * - `early`: one has come before any text. Some servers put it on the first piece.
 * - `likely`: it came along with all text, or for the second time. Some servers put it on every
 *   piece.
 * - `behind`: it came behind the text, or with the last of several pieces.
 * - `proven`: the first usage came with it or behind it, apart from text.
 * - `doubtful`: text has followed a marker.
 * - `stale`: so it has, without any text before that marker.
 */
type Phase = "open" | "early" | "likely" | "behind" | "proven" | "doubtful" | "stale";

/** What has been read so far. It is over once nothing that follows counts. */
type State = {
  phase: Phase;
  text: string;
  /** A marker has come before any text. */
  isMarkedEarly: boolean;
  /** Text has come without a marker. */
  hasUnmarkedText: boolean;
  hasUsage: boolean;
  /** Text has come in pieces. A whole reply behind them says it again. */
  hasPieces: boolean;
  /** Text has come behind the latest counts, which are not those of the reply then. */
  hasUncountedText: boolean;
  /** The good ends that markers have named. */
  ends: Set<Outcome>;
  failure: "none" | "perhaps" | "certain";
  /** The text before a finish marker that named a failure. */
  textBeforeFailure?: string;
  /** Something may have been an error: `[DONE]` cannot stand for the finish marker. */
  isDoubtful: boolean;
  isOver: boolean;
  counts: Counts;
};
type Counts = Record<"input" | "written" | "read" | "output" | "reasoning", number | undefined>;

/** What one document says. */
type Facts = Partial<{
  text: string;
  word: unknown;
  counts: Partial<Counts>;
  over: boolean;
  isWhole: boolean;
  /** Another reply begins if text has come before. */
  isOpening: boolean;
}>;

// biome-ignore lint/suspicious/noExplicitAny: a document of a provider, which may be anything
type Json = any;

/**
 * Reads a reply as plainly as the promises about replies can be written down, and as slowly: every
 * arrival decodes the whole body again.
 */
export function referenceVerdict(dialect: SimulatedDialect, body: Body, limits: Limits): Verdict {
  const received: Buffer[] = [];
  let state = decode(dialect, "", false);
  for (const { bytes, afterMs } of body.arrivals) {
    if (state.isOver) break;
    if (isSilentTooLong(state, afterMs, limits)) return verdictOf(state, "silence");
    received.push(bytes);
    state = decode(dialect, textIn(received), false);
  }
  if (!state.isOver && body.ending === "end") state = decode(dialect, textIn(received), true);
  return verdictOf(state, state.isOver ? "end" : body.ending);
}

function isSilentTooLong({ phase }: State, ms: number, { afterOutcomeMs, idleMs }: Limits) {
  return ms > (phase === "proven" ? afterOutcomeMs : idleMs);
}

/** The characters that are complete. */
const textIn = (received: Buffer[]) =>
  new TextDecoder("utf-8").decode(Buffer.concat(received), { stream: true });

/** The good outcomes of a reply by its phase and the way in which its body ends. */
function verdictOf(state: State, ending: Body["ending"]): Verdict {
  const { phase, ends, failure, counts, textBeforeFailure } = state;
  const text = textBeforeFailure ?? state.text;
  const good = ends.size > 0 ? [...ends] : (["finished"] as const);
  const either = [...good, "failed"] as const;
  const failed = ["failed"] as const;
  const table: Record<Phase, Record<Body["ending"], readonly Outcome[]>> = {
    open: { end: failed, reset: failed, silence: failed },
    early: { end: good, reset: failed, silence: either },
    likely: { end: good, reset: either, silence: good },
    behind: { end: good, reset: good, silence: good },
    proven: { end: good, reset: good, silence: good },
    doubtful: { end: good, reset: failed, silence: either },
    stale: { end: either, reset: failed, silence: either },
  };
  const outcomes = new Set<Outcome>(failure === "certain" ? failed : table[phase][ending]);
  if (failure === "perhaps") outcomes.add("failed");
  const usage = state.hasUncountedText ? undefined : usageOf(counts, state.text);
  return { text, isTextCut: textBeforeFailure !== undefined, outcomes: [...outcomes], usage };
}

/** Counts that cannot be right are not reported: no input, or text without output. */
function usageOf(counts: Counts, text: string): Usage | undefined {
  const { input, written = 0, read = 0, output, reasoning = 0 } = counts;
  if (input === undefined || output === undefined) return undefined;
  const inputTokens = input + written + read;
  const outputTokens = output + reasoning;
  const isPossible = inputTokens > 0 && (outputTokens > 0 || text === "");
  return isPossible ? { inputTokens, outputTokens } : undefined;
}

/** Decodes a body from its beginning. @param isEnd whether no more comes */
function decode(dialect: SimulatedDialect, body: string, isEnd: boolean): State {
  const state: State = {
    phase: "open",
    text: "",
    isMarkedEarly: false,
    hasUnmarkedText: false,
    hasUsage: false,
    hasPieces: false,
    hasUncountedText: false,
    ends: new Set(),
    failure: "none",
    isDoubtful: false,
    isOver: false,
    counts: {
      input: undefined,
      written: undefined,
      read: undefined,
      output: undefined,
      reasoning: undefined,
    },
  };
  for (const { name, data, bare } of blocksIn(body, isEnd)) {
    if (bare) readBare(dialect, state, bare);
    else if (name === "error") fail(state);
    else readEvent(dialect, state, name, data);
    if (state.isOver) break;
  }
  return state;
}

type Block = { name: string; data: string; bare?: string[] };

/** Splits a body into events, and the lines between them that are no fields. */
function blocksIn(body: string, isEnd: boolean): Block[] {
  const blocks: Block[] = [];
  let event: { name: string; data: string[] } = { name: "", data: [] };
  let bare: string[] = [];
  const endBare = () => {
    if (bare.length > 0) blocks.push({ name: "", data: "", bare });
    bare = [];
  };
  const endEvent = () => {
    if (event.data.length > 0) {
      endBare();
      blocks.push({ name: event.name, data: event.data.join("\n") });
    }
    event = { name: "", data: [] };
  };
  const fields: Record<string, (value: string) => void> = {
    "": () => {}, // a comment
    id: () => {},
    retry: () => {},
    data: (value) => void event.data.push(value),
    event: (value) => {
      event.name = value;
    },
    error: (value) => void blocks.push({ name: "error", data: value }), // of llama.cpp
  };
  for (const line of linesIn(body, isEnd)) {
    const [, field = line, value = ""] = /^([^:]*): ?(.*)$/s.exec(line) ?? [];
    if (line === "") endEvent();
    else if (Object.hasOwn(fields, field)) fields[field]?.(value);
    else bare.push(line);
  }
  if (isEnd || isJson(bare.join("\n"))) endBare();
  return blocks;
}

/** The complete lines of a body. At its end its last line is one, and a blank line follows. */
function linesIn(body: string, isEnd: boolean): string[] {
  const lines = body.replace(/^\ufeff/, "").split(/\r\n|\n|\r/);
  const cut = lines.pop() ?? "";
  return isEnd ? [...lines, ...(cut === "" ? [] : [cut]), ""] : lines;
}

/** Reads lines that are no fields: one document, a document on each line, or text. */
function readBare(dialect: SimulatedDialect, state: State, lines: string[]): void {
  const whole = lines.join("\n").trim();
  const documents = isJson(whole) ? [whole] : lines.map((line) => line.trim());
  for (const document of documents) {
    if (state.isOver) break;
    const isDocument = /^[[{]/.test(document) && isJson(document);
    if (isDocument) readJson(dialect, state, JSON.parse(document));
    else readWords(state, document);
  }
}

function readEvent(dialect: SimulatedDialect, state: State, name: string, data: string): void {
  const text = data.trim();
  const isSilence = text === "" || text === '""' || text.startsWith(":");
  if (isSilence) return;
  if (/^"?\[DONE\]"?$/.test(text)) readDone(dialect, state);
  else if (isJson(text)) readJson(dialect, state, JSON.parse(text));
  else if (["", "message"].includes(name)) failUnreadable(state);
}

/** `[DONE]` ends a reply that has a marker, in the dialects of OpenAI also one that has text. */
function readDone(dialect: SimulatedDialect, state: State): void {
  const isMarked = state.phase !== "open" && state.phase !== "stale";
  if (!isMarked && !dialect.startsWith("openai")) state.isOver = true;
  else close(state);
}

function readJson(dialect: SimulatedDialect, state: State, document: Json): void {
  if (state.isOver) return;
  const isObject = typeof document === "object" && document !== null;
  if (!isObject) failUnreadable(state);
  else if (Array.isArray(document)) for (const each of document) readJson(dialect, state, each);
  else if (document.error || document.type === "error" || document.object === "error") fail(state);
  else readFacts(state, FACTS[dialect](document));
}

function readFacts(state: State, facts: Facts): void {
  if (facts.isOpening && state.hasPieces) fail(state);
  else apply(state, facts);
}

function apply(state: State, { word, counts, over = false, isWhole, ...facts }: Facts): void {
  const text = isWhole && state.hasPieces ? "" : (facts.text ?? "");
  if (text !== "" && !isWhole) state.hasPieces = true;
  addText(state, text);
  if (counts?.output !== undefined) state.hasUncountedText = false;
  else if (text !== "") state.hasUncountedText = true;
  addCounts(state, counts ?? {});
  const end = endOf(word);
  if (text !== "" && !end && !isWhole) state.hasUnmarkedText = true;
  if (end === "failed") failAtMarker(state);
  else if (end) mark(state, end, text !== "");
  else if (isWhole && state.text !== "") mark(state, "finished", true);
  addProof(state, text !== "");
  if (over) close(state);
}

/** The first usage of a reply is a proof, unless it comes along with text. */
function addProof(state: State, isWithText: boolean): void {
  const isFirst = !state.hasUsage && usageOf(state.counts, "text") !== undefined;
  if (isFirst) state.hasUsage = true;
  if (isFirst && !isWithText && isMarked(state) && !state.isMarkedEarly) state.phase = "proven";
}

/** A marker holds for all text. */
const isMarked = ({ phase }: State) =>
  phase === "likely" || phase === "behind" || phase === "proven";

function addText(state: State, text: string): void {
  if (text !== "" && isMarked(state)) state.phase = "doubtful";
  if (text !== "" && state.phase === "early") state.phase = "stale";
  state.text += text;
}

/** Counts are cumulative: the largest of each is the true one. */
function addCounts({ counts }: State, reported: Partial<Counts>): void {
  for (const [name, count] of Object.entries(reported) as [keyof Counts, unknown][])
    if (typeof count === "number") counts[name] = Math.max(count, counts[name] ?? 0);
}

/** The closing frame of a dialect has come. It may stand for the marker. */
function close(state: State): void {
  const isMarked = state.phase !== "open" && state.phase !== "stale";
  const standsForMarker = state.text !== "" && !state.isDoubtful;
  if (isMarked) state.phase = "proven";
  else if (standsForMarker) finish(state, "finished");
  state.isOver = true;
}

/** A finish marker has come. */
function mark(state: State, end: Outcome, isWithText: boolean): void {
  state.ends.add(end);
  if (state.text === "") state.isMarkedEarly = true;
  const isEveryPiece = isWithText && !state.hasUnmarkedText;
  if (state.text === "") state.phase = "early";
  else if (state.phase !== "doubtful" && state.phase !== "proven")
    state.phase = isEveryPiece || state.isMarkedEarly ? "likely" : "behind";
}

function finish(state: State, end: Outcome): void {
  state.ends.add(end);
  state.phase = "proven";
}

const isBehind = ({ phase }: State) => phase === "behind" || phase === "proven";

/** An error ends a reply. One behind its marker may or may not. */
function fail(state: State): void {
  const isProven = isBehind(state) && state.failure === "none";
  state.failure = isProven ? "perhaps" : "certain";
  state.isOver = true;
}

/** A finish marker names a failure. Usage may follow. */
function failAtMarker(state: State): void {
  state.failure = isBehind(state) && state.failure !== "certain" ? "perhaps" : "certain";
  state.textBeforeFailure ??= state.text;
}

/** What cannot be read ends a reply before its marker, and means nothing behind it. */
function failUnreadable(state: State): void {
  if (state.phase === "open") fail(state);
  else if (!isMarked(state)) {
    state.failure = "perhaps";
    state.isOver = true;
  }
}

const ERROR_WORDS =
  /^(HTTP\/1\.1 )?(5\d\d )?(Internal Server Error|Bad Gateway|Service Unavailable)$/;

/** Words outside of JSON are an error if they name one, unless the marker has come. */
function readWords(state: State, words: string): void {
  if (ERROR_WORDS.test(words)) failUnreadable(state);
  else state.isDoubtful = true;
}

const WORDS: Record<string, Outcome> = {
  ...Object.fromEntries(["stop", "endturn", "stopsequence"].map((word) => [word, "finished"])),
  ...Object.fromEntries(["length", "maxtokens", "maxoutputtokens"].map((word) => [word, "limit"])),
};

/** Good words are listed. Every other one is a failure. Letter case, `-` and `_` do not matter. */
function endOf(word: unknown): Outcome | undefined {
  if (word === undefined || word === null || word === "") return undefined;
  return WORDS[String(word).toLowerCase().replace(/[-_]/g, "")] ?? "failed";
}

const FACTS: Record<SimulatedDialect, (document: Json) => Facts> = {
  openai: factsOfOpenai,
  "openai-compatible": factsOfOpenai,
  anthropic({ type, message, delta, content, content_block, stop_reason, usage }) {
    const { output_tokens, ...input } = message?.usage ?? {}; // the output at the start is a placeholder
    const block = delta ?? content_block;
    const isText = block?.type === "text_delta" || block?.type === "text";
    return {
      text: isText ? block.text : content?.map((part: Json) => part.text ?? "").join(""),
      word: delta?.stop_reason ?? stop_reason,
      counts: {
        input: (usage ?? input).input_tokens,
        written: (usage ?? input).cache_creation_input_tokens,
        read: (usage ?? input).cache_read_input_tokens,
        output: usage?.output_tokens,
      },
      over: type === "message_stop",
      isWhole: type === "message",
      isOpening: type === "message_start",
    };
  },
  google({ candidates, usageMetadata }) {
    const candidate = candidates?.find(({ index = 0 }) => index === 0);
    const parts = candidate?.content?.parts ?? [];
    return {
      text: parts.map((part: Json) => (part.thought ? "" : (part.text ?? ""))).join(""),
      word: candidate?.finishReason,
      counts: usageMetadata && {
        input: usageMetadata.promptTokenCount,
        output: usageMetadata.candidatesTokenCount ?? 0,
        reasoning: usageMetadata.thoughtsTokenCount,
      },
    };
  },
};

function factsOfOpenai({ choices, usage }: Json): Facts {
  const choice = choices?.find(({ index = 0 }) => index === 0);
  const content = (choice?.delta ?? choice?.message)?.content ?? "";
  return {
    text: typeof content === "string" ? content : "", // parts of reasoning
    word: choice?.finish_reason,
    counts: usage ? { input: usage.prompt_tokens, output: usage.completion_tokens } : {},
    isWhole: choice?.message !== undefined,
  };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
