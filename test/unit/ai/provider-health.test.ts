import { describe, expect, test } from "vitest";
import { type AttemptOutcome, UpstreamHealth } from "../../../services/ai/providers/health.ts";
import { createClock } from "../../support/clock.ts";
import { times } from "../../support/tally.ts";

/** A provider whose attempts a test makes up. */
function startHealth() {
  const clock = createClock();
  const changes: boolean[] = [];
  const health = new UpstreamHealth(clock, (isOpen) => void changes.push(isOpen));
  const attempt = (outcome: AttemptOutcome) => {
    health.begin();
    health.end(outcome);
  };
  const fail = (count: number) => void times(count, () => attempt("overloaded"));
  return { clock, changes, health, attempt, fail };
}

describe("Breaker of a provider", () => {
  test("opens after five failures in a row, and reports it once", () => {
    const { health, changes, fail } = startHealth();
    fail(4);
    expect([health.breaker, health.isAvoided]).toEqual(["closed", false]);
    fail(1);
    expect([health.breaker, health.isAvoided]).toEqual(["open", true]);
    fail(3);
    expect(changes).toEqual([true]);
  });

  test("stays closed if less than half of at least 20 attempts fail, and never five in a row", () => {
    const { health, attempt, fail } = startHealth();
    for (let round = 0; round < 20; round++) {
      fail(4);
      times(5, () => attempt("completed"));
    }
    expect(health.breaker).toBe("closed");
  });

  test("opens if half of 20 attempts within 30 seconds fail", () => {
    const { health, attempt, fail } = startHealth();
    times(9, () => {
      attempt("completed");
      fail(1);
    });
    attempt("completed");
    expect(health.breaker).toBe("closed");
    fail(1);
    expect(health.breaker).toBe("open");
    const slow = startHealth();
    times(30, () => {
      slow.attempt("completed");
      slow.fail(1);
      slow.clock.advance("4s");
    });
    expect(slow.health.breaker).toBe("closed");
  });

  test("is half-open after 10 seconds, then after twice as long up to 60, and closes after a success", () => {
    const { health, changes, clock, attempt, fail } = startHealth();
    fail(5);
    for (const seconds of [10, 20, 40, 60, 60]) {
      clock.advance(`${seconds - 1}s`);
      expect(health.breaker).toBe("open");
      clock.advance("1s");
      expect(health.breaker).toBe("half-open");
      fail(1);
    }
    clock.advance("60s");
    attempt("completed");
    expect([health.breaker, health.isAvoided, changes]).toEqual(["closed", false, [true, false]]);
    fail(4);
    expect(health.breaker).toBe("closed");
    fail(1);
    clock.advance("10s");
    expect(health.breaker).toBe("half-open");
  });

  test("lets one call through while half-open, and another if the first has no result", () => {
    const { health, clock, fail } = startHealth();
    fail(5);
    clock.advance("10s");
    expect(health.isAvoided).toBe(false);
    health.begin();
    expect([health.breaker, health.isAvoided]).toEqual(["half-open", true]);
    health.end("cancelled");
    clock.advance("10s");
    expect(health.isAvoided).toBe(false);
  });

  test("closes after any success, including that of a call that names the model", () => {
    const { health, attempt, fail } = startHealth();
    fail(5);
    attempt("completed");
    expect(health.breaker).toBe("closed");
  });

  test.each([
    ...(["completed", "rejected the request", "blocked the content"] as const),
    ...(["cancelled", "reply too large"] as const),
  ])("does not count this as a failure of the provider: %s", (outcome) => {
    const { health, attempt } = startHealth();
    times(30, () => attempt(outcome));
    expect([health.breaker, health.report.failures]).toEqual(["closed", 0]);
    expect(health.report.lastFailure).toBeUndefined();
  });
});

test("Health of a provider: the report covers the last minute and the last failure", () => {
  const { health, clock, attempt, fail } = startHealth();
  attempt("timed out");
  clock.advance("61s");
  expect(health.report).toMatchObject({
    ...{ attempts: 0, failures: 0 },
    lastFailure: { kind: "timed out", at: expect.any(Date) },
  });
  attempt("completed");
  attempt("rejected the request");
  fail(1);
  attempt("cancelled");
  expect(health.report).toMatchObject({
    ...{ attempts: 3, failures: 1, breaker: "closed" },
    lastFailure: { kind: "overloaded" },
  });
});
