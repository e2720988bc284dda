import { afterEach, expect, test, vi } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { withAttempt } from "../../../services/lockout/reserve-attempt.ts";

afterEach(() => vi.restoreAllMocks());

test("Lockout: a guess waits for others for at most 15 seconds", async () => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const call = {
    async query({ name }: { name: string }) {
      if (name === "reserve_attempt") now += 6_000;
      return [];
    },
    clock: { now: () => new Date() },
    config: { lockoutThreshold: 5, lockoutResetMs: 3_600_000, lockoutDurationMs: 900_000 },
    signal: new AbortController().signal,
  } as unknown as Parameters<typeof withAttempt>[0];
  const guess = withAttempt(call, { kind: "password", subject: "ann@example.com" }, () =>
    Promise.resolve(),
  );
  await expect(guess).rejects.toMatchObject({ reason: Reason.UNAVAILABLE });
  expect(now).toBe(18_000);
});
