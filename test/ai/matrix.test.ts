import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FailureKind } from "../../services/ai/providers/failure.ts";
import { PASSING } from "../fakes/providers/failing-cases.ts";
import { PREFIX, REPLY } from "../fakes/providers/play.ts";
import { CASES, type SimulatedDialect } from "../fakes/providers/simulator.ts";
import { CONTENTS, SHAPES } from "../fakes/providers/whole-cases.ts";
import { type Bench, DIALECTS, type Outcome, promptOf, readStream, readWhole, startBench } from "./support.ts";

type Expected = { text: string; failure?: FailureKind };
const prefix = (failure: FailureKind): Expected => ({ text: PREFIX, failure });
const nothing = (failure: FailureKind): Expected => ({ text: "", failure });

/** What stream and chat must give, where that isn't the whole reply; an entry that names one outcome means both. */
const EXPECTED: Record<string, Expected | [stream: Expected, chat: Expected]> = {
  "text-after-finish": [{ text: `${REPLY} P.S.` }, { text: REPLY }],
  escapes: { text: "NUL \u0000, half \ufffd of a character" },
  "split-surrogates": { text: "half 👋 and half" },
  "large-event": { text: "x".repeat(900_000) },
  "tiny-events 20000": { text: "x".repeat(20_000) },
  invalid: nothing("rejected the request"),
  "bad-key": nothing("refused the key"),
  "no-credit": nothing("quota exhausted"),
  forbidden: nothing("refused the key"),
  "not-found": nothing("rejected the request"),
  "too-large": nothing("rejected the request"),
  quota: nothing("quota exhausted"),
  "rate-limited": nothing("rate limited"),
  "retry-tomorrow": nothing("rate limited"),
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
  "done-only": nothing("broke off"),
  "null-event": [prefix("unreadable reply"), nothing("unreadable reply")],
  blocked: [prefix("blocked the content"), nothing("blocked the content")],
  "reset-midway": [prefix("broke off"), nothing("broke off")],
  "closed-midway": [prefix("broke off"), nothing("broke off")],
  "ended-midway": [prefix("broke off"), nothing("unreadable reply")],
  "half-an-event": [prefix("unreadable reply"), nothing("unreadable reply")],
  silent: nothing("timed out"),
  "silent-after-headers": nothing("timed out"),
  "silent-midway": [prefix("timed out"), nothing("timed out")],
  "pings-midway": [prefix("timed out"), nothing("timed out")],
  "endless-event": [prefix("reply too large"), nothing("reply too large")],
};

/** Cases that call for an argument or need a test of their own. */
const ELSEWHERE = ["tiny-events", "retry-after", "redirect", "endless"];
const NAMES = [...new Set([...Object.keys(CASES), ...Object.keys(EXPECTED)])].filter(
  (name) => !ELSEWHERE.includes(name),
);
/** A short reply may be in flight for long on a busy machine; only cases that never end wait for these. */
const LIMITS = { firstByteMs: 400, idleMs: 400, afterFinishMs: 100, totalMs: 5_000, chatBytes: 2_000_000 };
const PATIENT = { firstByteMs: 10_000, idleMs: 10_000, afterFinishMs: 100, totalMs: 20_000, chatBytes: 2_000_000 };
const NEVER_ENDING = /^silent|^pings|^kept-open/;

describe.each(DIALECTS)("every awkward case of %s", (dialect: SimulatedDialect) => {
  let patient: Bench;
  let hasty: Bench;
  beforeAll(async () => {
    [patient, hasty] = await Promise.all([startBench(dialect, PATIENT), startBench(dialect, LIMITS)]);
  });
  afterAll(() => Promise.all([patient.close(), hasty.close()]));

  describe.concurrent.each(NAMES)("%s", (name) => {
    const expected = EXPECTED[name] ?? { text: REPLY };
    const [ofStream, ofChat] = Array.isArray(expected) ? expected : [expected, expected];
    const bench = () => (NEVER_ENDING.test(name) ? hasty : patient);

    test.concurrent("stream", async () => {
      const outcome = await readStream(bench().provider, promptOf(bench(), `case: ${name} (stream)`));
      expect(summary(outcome)).toEqual(summary(ofStream));
    });
    test.concurrent("chat", async () => {
      const outcome = await readWhole(bench().provider, promptOf(bench(), `case: ${name} (chat)`));
      expect(summary(outcome)).toEqual(summary(ofChat));
    });
  });
});

/** Long texts in failure reports help nobody. */
const summary = ({ text, failure }: Outcome) => ({
  text: text.length > 500 ? `${text.slice(0, 20)}… of ${text.length}` : text,
  failure,
});

test("the table has at least 40 cases, and whole replies as well as failures", () => {
  expect(NAMES.length).toBeGreaterThan(40);
  for (const whole of [SHAPES, CONTENTS, PASSING]) expect(Object.keys(whole).length).toBeGreaterThan(10);
});
