import { expect, test } from "vitest";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Config } from "../../../services/platform/config/config.ts";
import { createAdmission } from "../../../services/platform/gate/admission.ts";
import { createApiKey } from "../../../services/platform/gate/api-key.ts";
import { openGate } from "../../../services/platform/gate/server-hooks.ts";
import { reasonName, ServiceError } from "../../../services/platform/rpc/errors.ts";
import { createClock } from "../../support/clock.ts";
import { silent } from "../../support/log.ts";
import { tally } from "../../support/tally.ts";

/** A port at which a user asks for the profile, and the number of look-ups of the user. */
async function openPort(refuseEarly?: () => () => ServiceError) {
  const clock = createClock();
  const { key } = createApiKey();
  const found = { userId: "owner", keyId: "id", isService: false, requestsPerMinute: undefined };
  const keys = { verificationKey: async () => undefined, verifiedTokens: new Map() };
  const lookups: string[] = [];
  const config = { publicUrl: "http://gatehouse.test", rateLimits: true, trustProxy: [] };
  const { gate } = await openGate(config as unknown as Config, keys, {
    ...{ log: silent, clock, admission: createAdmission({ budgetBytes: 5 * 1024 * 1024 }) },
    findKey: async () => found,
    ...(refuseEarly && { refuseEarly }),
    async lookUp({ userId }) {
      lookups.push(userId);
    },
  });
  const open = { address: "10.0.0.1", isForwarded: false, isProbe: false };
  /** @returns whether the user is looked up while the call is counted, or the refusal */
  const ask = (isWhole = true) =>
    gate({
      method: UserService.method.getProfile,
      authorization: `Bearer ${key}`,
      open: { ...open, identify() {}, refuse() {}, close() {} },
      isWhole: () => isWhole,
    }).then(
      ({ lookup, permit }) => ({ outcome: lookup ? "looked up" : "not yet", permit }),
      (error) => ({
        outcome: error instanceof ServiceError ? reasonName(error.reason) : error,
        permit: undefined,
      }),
    );
  return { clock, ask, lookups };
}

test("Port: looks the caller up while the call is counted, once the whole request has arrived", async () => {
  const { ask } = await openPort();
  expect((await ask()).outcome).toBe("looked up");
  expect((await ask(false)).outcome).toBe("not yet");
});

test("Port: does not look up callers that are beyond a limit", async () => {
  const { clock, ask, lookups } = await openPort();
  const outcomes: string[] = [];
  for (let i = 0; i < 150; i++) {
    const { outcome, permit } = await ask();
    outcomes.push(outcome);
    permit?.release();
  }
  expect(tally(outcomes, String)).toEqual({ "looked up": 100, RATE_LIMITED: 50 });
  expect(lookups).toHaveLength(101); // only the first call beyond the limit was not expected
  clock.advance("1m");
  expect((await ask()).outcome).toBe("looked up");
});

test("Port: does not look up callers whose share of the process is used up", async () => {
  const { ask, lookups } = await openPort();
  for (let i = 0; i < 32; i++) expect((await ask()).outcome).toBe("looked up");
  expect((await ask()).outcome).toBe("TOO_MANY_CONCURRENT");
  expect(lookups).toHaveLength(32);
});

test("Port: does not look up callers whose calls are refused whatever their bodies are, but counts them", async () => {
  const { ask, lookups } = await openPort(
    () => () => new ServiceError(Reason.BUDGET_EXCEEDED, "The budget is used up."),
  );
  const outcomes: string[] = [];
  for (let i = 0; i < 150; i++) outcomes.push((await ask()).outcome);
  expect(tally(outcomes, String)).toEqual({ BUDGET_EXCEEDED: 100, RATE_LIMITED: 50 });
  expect(lookups).toEqual([]);
});
