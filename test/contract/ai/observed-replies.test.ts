import { describe, expect, test } from "vitest";
import { startScriptedProvider } from "../../support/ai/scripted-provider.ts";
import { startSuiteApp } from "../../support/app.ts";
import { forSuite } from "../../support/suites.ts";
import { until } from "../../support/until.ts";
import { type Account, isStreamed, PLAYED_CALLS, playsOf } from "./observed/calls.ts";
import { OBSERVED_REPLIES, type ObservedReply } from "./observed/cases.ts";
import { askSdk } from "./observed/sdks.ts";

const provider = await forSuite(startScriptedProvider());
const app = await startSuiteApp({
  env: { ...provider.env, RATE_LIMITS: "off" },
});

const plays = playsOf(app);

/** What a call must return. A stream shows text before a failure, and no finish reason. */
function outcomeOf(call: string, { text, end, failureSays, usage }: ObservedReply["expected"]) {
  if (end === "failure") return { text: isStreamed(call) ? text : "", failure: failureSays };
  return isStreamed(call) ? { text } : { text, end, ...(usage && { usage }) };
}

/** The calls of each reply: with TEST_FULL all, else one, in turn. */
const ROWS = OBSERVED_REPLIES.map((reply, index) => {
  const inTurn = PLAYED_CALLS.filter((_, i) => i === index % PLAYED_CALLS.length);
  return { ...reply, calls: process.env.TEST_FULL ? PLAYED_CALLS : inTurn };
});

describe.concurrent.each(ROWS)("Observed reply $id", ({ calls, ...reply }) => {
  const { expected, request, upstream } = reply;

  test.concurrent.each(calls)("%s: returns the expected text and end", async (call) => {
    const account = await app.signIn();
    const maxTokens = provider.add(upstream);
    const outcome = await plays[call]({ ...request, maxTokens }, account);
    expect(outcome).toMatchObject(outcomeOf(call, expected));
    if (expected.upstreamCalls) expect(provider.callsOf(maxTokens)).toBe(expected.upstreamCalls);
    await expectLedger(account, expected);
  });

  test.concurrent("the official SDK agrees, unless the table explains why not", async () => {
    const maxTokens = provider.add(upstream.slice(-1));
    const kind = isStreamed(reply.call) ? "stream" : "whole";
    const theirs = await askSdk(reply.dialect, kind, { origin: provider.url, maxTokens });
    const isFailure = expected.end === "failure";
    const agrees = theirs.failed === isFailure && (isFailure || theirs.text === expected.text);
    expect({ agrees, theirs }).toMatchObject({ agrees: reply.sdkDiffers === undefined });
  });
});

/** Expects the usage that is recorded for an account's only call. */
async function expectLedger(
  { get }: Account,
  { usage, estimated, end }: ObservedReply["expected"],
) {
  const row = await until("the usage of the call", async () => {
    const [first] = (await get("/user/export")).body.usage;
    return first && first.outcome !== "running" ? first : undefined;
  });
  expect(row.outcome === "completed").toBe(end !== "failure");
  if (usage) expect(row).toMatchObject({ ...usage, estimated: false });
  if (estimated) expect(row).toMatchObject({ ...estimated, estimated: true });
}
