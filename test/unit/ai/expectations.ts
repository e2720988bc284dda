import { PREFIX, REPLY } from "../../../scripts/simulators/script.ts";
import { CASES } from "../../../scripts/simulators/simulator.ts";
import type { ProviderErrorKind } from "../../../services/ai/providers/errors.ts";

/** The text of a reply and its failure, if any. */
export type Expected = { text: string; failure?: ProviderErrorKind };
const prefix = (failure: ProviderErrorKind): Expected => ({ text: PREFIX, failure });
const nothing = (failure: ProviderErrorKind): Expected => ({ text: "", failure });

/** The outcomes of stream and chat that differ from the whole reply. A single outcome is that of both. */
const EXPECTED: Record<string, Expected | [stream: Expected, chat: Expected]> = {
  "text-after-finish": [{ text: `${REPLY} P.S.` }, { text: REPLY }],
  "empty-at-maximum": { text: "" },
  escapes: { text: "NUL \u0000, half \ufffd of a character" },
  "split-surrogates": { text: "half 👋 and half" },
  "large-event": { text: "x".repeat(900_000) },
  "tiny-frames 20000": [{ text: "x".repeat(20_000) }, { text: "xx" }],
  invalid: nothing("rejected the request"),
  "bad-key": nothing("refused the key"),
  "no-credit": nothing("quota exhausted"),
  forbidden: nothing("refused the key"),
  "not-found": nothing("rejected the request"),
  "too-large": nothing("rejected the request"),
  quota: nothing("quota exhausted"),
  "rate-limited": nothing("rate limited"),
  "retry-tomorrow": nothing("rate limited"),
  "retry-at-tomorrow": nothing("rate limited"),
  broken: nothing("internal error"),
  overloaded: nothing("overloaded"),
  timeout: nothing("timed out"),
  "error-in-array": nothing("refused the key"),
  "html-502": nothing("internal error"),
  "html-200": nothing("unreadable reply"),
  "error-200": nothing("rate limited"),
  "no-content": nothing("unreadable reply"),
  empty: [nothing("broke off"), nothing("unreadable reply")],
  "kept-open": [{ text: REPLY }, nothing("timed out")],
  "reset-after-finish": [{ text: REPLY }, nothing("broke off")],
  "redirect http://127.0.0.1:9/": nothing("unreadable reply"),
  reset: nothing("unreachable"),
  "error-event": [prefix("overloaded"), nothing("overloaded")],
  "error-event-only": nothing("overloaded"),
  "error-event-named": [prefix("broke off"), nothing("overloaded")],
  "error-event-nameless": [prefix("overloaded"), nothing("overloaded")],
  "malformed-event": [prefix("unreadable reply"), nothing("unreadable reply")],
  "tool-call": nothing("unreadable reply"),
  "text-and-tool-call": [{ text: PREFIX }, { text: REPLY }],
  "other-protocol": nothing("unreadable reply"),
  "object-as-text": [prefix("unreadable reply"), nothing("unreadable reply")],
  "list-as-text": [prefix("unreadable reply"), nothing("unreadable reply")],
  "broken-utf8": nothing("unreadable reply"),
  "done-only": nothing("broke off"),
  "null-event": [prefix("unreadable reply"), nothing("unreadable reply")],
  blocked: [prefix("blocked the content"), nothing("blocked the content")],
  "reset-midway": [prefix("broke off"), nothing("broke off")],
  "reset-after-going-on": [{ text: `${REPLY} P.S.`, failure: "broke off" }, nothing("broke off")],
  "closed-midway": [prefix("broke off"), nothing("broke off")],
  "ended-midway": [prefix("broke off"), nothing("unreadable reply")],
  "half-an-event": [prefix("broke off"), nothing("unreadable reply")],
  silent: nothing("timed out"),
  "silent-after-headers": nothing("timed out"),
  "silent-in-error": nothing("overloaded"),
  "silent-json-instead": nothing("timed out"),
  "silent-midway": [prefix("timed out"), nothing("timed out")],
  "pings-midway": [prefix("timed out"), nothing("timed out")],
  "endless-event": [prefix("reply too large"), nothing("reply too large")],
};

/** Cases with an argument, or with their own tests. */
const ELSEWHERE = [
  "tiny-frames",
  "large-reply",
  "retry-after",
  "redirect",
  "endless",
  "counting",
  "thinking-long",
  "verbatim",
];
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
