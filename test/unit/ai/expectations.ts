import { CALLING } from "../../../scripts/simulators/dialect-encoder.ts";
import { PREFIX, REPLY } from "../../../scripts/simulators/script.ts";
import { CASES } from "../../../scripts/simulators/simulator.ts";
import type { ProviderErrorKind } from "../../../services/ai/providers/errors.ts";

/** The text of a reply and its failure, if any. */
export type Expected = { text: string; failure?: ProviderErrorKind };
type Outcomes = Record<string, Expected | [stream: Expected, chat: Expected]>;

const nothing = (failure: ProviderErrorKind): Expected => ({ text: "", failure });
const brokenOff: Expected = { text: PREFIX, failure: "broke off" };
const named = (names: string, outcome: Outcomes[string]): Outcomes =>
  Object.fromEntries(names.split(" ").map((name) => [name, outcome]));
/** Cases that fail before any text. */
const failed = (failure: ProviderErrorKind, names: string) => named(names, nothing(failure));
/** Cases that fail in the middle of a stream, or before a complete reply. */
const interrupted = (failure: ProviderErrorKind, names: string) =>
  named(names, [{ text: PREFIX, failure }, nothing(failure)]);

/**
 * The outcomes of stream and chat that differ from the complete reply. A single outcome is that of
 * both.
 */
const EXPECTED: Outcomes = {
  ...failed("rejected the request", "invalid not-found too-large"),
  ...failed("refused the key", "bad-key forbidden error-in-array"),
  ...failed("quota exhausted", "no-credit quota"),
  ...failed("rate limited", "rate-limited retry-tomorrow retry-at-tomorrow error-200"),
  ...failed("internal error", "broken html-502"),
  ...failed("overloaded", "overloaded error-event-only silent-in-error"),
  ...failed("timed out", "timeout silent silent-after-headers silent-json-instead"),
  ...failed("unreadable reply", "html-200 no-content tool-call other-protocol broken-utf8"),
  ...failed("broke off", "done-only"),
  ...failed("unreachable", "reset"),
  ...interrupted("overloaded", "error-event error-event-nameless"),
  ...interrupted("unreadable reply", "malformed-event object-as-text list-as-text null-event"),
  ...interrupted("blocked the content", "blocked"),
  ...interrupted("broke off", "reset-midway reset-midway-billed closed-midway"),
  ...interrupted("timed out", "silent-midway silent-midway-billed pings-midway"),
  ...interrupted("reply too large", "endless-event"),
  "text-after-finish": [{ text: `${REPLY} P.S.` }, { text: REPLY }],
  "empty-at-maximum": { text: "" },
  escapes: { text: "NUL \u0000, half \ufffd of a character" },
  "split-surrogates": { text: "half 👋 and half" },
  "large-event": { text: "x".repeat(900_000) },
  "tiny-frames 20000": [{ text: "x".repeat(20_000) }, { text: "xx" }],
  empty: [nothing("broke off"), nothing("unreadable reply")],
  "kept-open": [{ text: REPLY }, nothing("timed out")],
  "reset-after-finish": [{ text: REPLY }, nothing("broke off")],
  "redirect http://127.0.0.1:9/": nothing("unreadable reply"),
  "error-event-named": [brokenOff, nothing("overloaded")],
  "text-and-tool-call": [{ text: PREFIX }, { text: REPLY }],
  // No tools are offered here: what counts is the text.
  calling: { text: CALLING.text },
  "calling-bytes": [{ text: CALLING.text }, { text: REPLY }],
  "reset-after-going-on": [{ text: `${REPLY} P.S.`, failure: "broke off" }, nothing("broke off")],
  "ended-midway": [brokenOff, nothing("unreadable reply")],
  "half-an-event": [brokenOff, nothing("unreadable reply")],
};

/** Cases with an argument, or with their own tests. */
const ELSEWHERE =
  "tiny-frames large-reply retry-after redirect endless counting thinking-long verbatim".split(" ");
export const NAMES = [...new Set([...Object.keys(CASES), ...Object.keys(EXPECTED)])].filter(
  (name) => !ELSEWHERE.includes(name),
);
/** Cases that only a timeout ends. */
export const NEVER_ENDING = /^silent|^pings|^kept-open/;

/** The outcomes of a case. */
export function expectedOf(name: string): { stream: Expected; chat: Expected } {
  const expected = EXPECTED[name] ?? { text: REPLY };
  const [stream, chat] = Array.isArray(expected) ? expected : [expected, expected];
  return { stream, chat };
}

/** Shortens long texts in failure reports. */
export const summary = ({ text, failure }: { text: string; failure?: string }) => ({
  text: text.length > 500 ? `${text.slice(0, 20)}… of ${text.length}` : text,
  failure,
});
