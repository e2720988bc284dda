import { expect, test, vi } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { createAdmission } from "../../../services/platform/gate/admission.ts";
import { createApiKey } from "../../../services/platform/gate/api-key.ts";
import type { KeyReference } from "../../../services/platform/gate/api-key-cache.ts";
import { createAuthenticator } from "../../../services/platform/gate/authenticate.ts";
import type { OpenCall } from "../../../services/platform/gate/open-calls.ts";
import { createRateLimiter } from "../../../services/platform/gate/rate-limiter.ts";
import { ServiceError } from "../../../services/platform/rpc/errors.ts";
import { createClock } from "../../support/clock.ts";
import { times } from "../../support/tally.ts";

/** Authenticates by API keys, of which one is known, and counts their look-ups. */
function openAuthenticator() {
  const clock = createClock();
  const known = createApiKey();
  const looked: string[] = [];
  const store = { isRevoked: false };
  const key: KeyReference = {
    userId: "owner",
    keyId: "id",
    isService: false,
    requestsPerMinute: undefined,
  };
  const keys = { verificationKey: async () => undefined, verifiedTokens: new Map() };
  const { authenticate } = createAuthenticator({
    tokens: { config: { publicUrl: "http://gatehouse.test" }, keys, clock },
    clock,
    admission: createAdmission(),
    rateLimiter: createRateLimiter(undefined, clock),
    async findKey(digest) {
      looked.push(digest);
      return digest === known.digest && !store.isRevoked ? key : undefined;
    },
  });
  /**
   * Sends a key from an address.
   * @returns the id of the key, or the reason of the refusal
   */
  const send = (text: string, address = "10.0.0.1", isForwarded = false) => {
    const open: OpenCall = {
      address,
      isForwarded,
      isProbe: false,
      identify() {},
      refuse() {},
      close() {},
    };
    return authenticate(`Bearer ${text}`, open).then(
      (credential) => (credential.kind === "api-key" ? credential.keyId : undefined),
      (error) => (error instanceof ServiceError ? error.reason : error),
    );
  };
  return { clock, known, looked, store, send };
}

const { UNAUTHENTICATED, RATE_LIMITED } = Reason;

test("API keys at a port: one with a wrong checksum is rejected without a look-up", async () => {
  const { known, looked, send } = openAuthenticator();
  expect(await send(known.key)).toBe("id");
  const mistyped = known.key.replace(/.$/, (last) => (last === "A" ? "B" : "A"));
  for (let i = 0; i < 40; i++) expect(await send(mistyped)).toBe(UNAUTHENTICATED);
  expect(looked).toEqual([known.digest]);
});

test("API keys at a port: after 30 unknown ones in a minute, an address gets 429 without a look-up", async () => {
  const { clock, looked, send } = openAuthenticator();
  const unknown = times(40, () => createApiKey().key);
  const answers = [];
  for (const key of unknown) answers.push(await send(key));
  expect(answers).toEqual([...Array(30).fill(UNAUTHENTICATED), ...Array(10).fill(RATE_LIMITED)]);
  expect(looked).toHaveLength(30);
  expect(await send(unknown[0] as string, "10.0.0.2")).toBe(UNAUTHENTICATED);
  clock.advance("1m");
  expect(await send(unknown[0] as string)).toBe(UNAUTHENTICATED);
});

test("API keys at a port: a known valid key is looked up, whatever others at its address send", async () => {
  const { known, send } = openAuthenticator();
  expect(await send(known.key)).toBe("id");
  for (let i = 0; i < 35; i++) await send(createApiKey().key);
  expect(await send(createApiKey().key)).toBe(RATE_LIMITED);
  expect(await send(known.key)).toBe("id");
});

test("API keys at a port: a known one is looked up again after 750 ms, without delaying the call that does so", async () => {
  const { known, looked, store, send } = openAuthenticator();
  const elapsed = vi.spyOn(performance, "now");
  expect(await send(known.key)).toBe("id");
  store.isRevoked = true;
  expect(await send(known.key)).toBe("id");
  expect(looked).toHaveLength(1);
  elapsed.mockReturnValue(performance.now() + 751);
  expect(await send(known.key)).toBe("id"); // the services refuse it
  expect(looked).toHaveLength(2);
  expect(await send(known.key)).toBe(UNAUTHENTICATED);
  elapsed.mockRestore();
});

test("API keys at a port: unknown ones forwarded by a gateway are not counted", async () => {
  const { send } = openAuthenticator();
  for (let i = 0; i < 40; i++)
    expect(await send(createApiKey().key, "10.0.0.1", true)).toBe(UNAUTHENTICATED);
});
