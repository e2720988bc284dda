import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  createKeyCache,
  type KeyReference,
} from "../../../services/platform/gate/api-key-cache.ts";
import { times } from "../../support/tally.ts";

const KEY: KeyReference = {
  userId: "u",
  keyId: "k",
  isService: false,
  requestsPerMinute: undefined,
};

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());

/** A cache of the key `valid`, and the number of its look-ups. */
function openCache() {
  const looked: string[] = [];
  const valid = new Set(["valid"]);
  const cache = createKeyCache(async (digest) => {
    looked.push(digest);
    return valid.has(digest) ? KEY : undefined;
  });
  return { ...cache, looked, valid };
}

test("Key cache: remembers a key for 750 ms", async () => {
  const { find, looked } = openCache();
  await find("valid");
  vi.advanceTimersByTime(749);
  expect(await find("valid")).toEqual(KEY);
  expect(looked).toHaveLength(1);
  vi.advanceTimersByTime(1);
  await find("valid");
  expect(looked).toHaveLength(2);
});

test("Key cache: notices a revocation with a look-up that no call waits for, or as soon as the services reject the key", async () => {
  const { find, forget, valid, wasValid } = openCache();
  await find("valid");
  valid.clear();
  expect(await find("valid")).toEqual(KEY);
  vi.advanceTimersByTime(750);
  expect(await find("valid")).toEqual(KEY);
  await expect.poll(() => wasValid("valid")).toBe(false);
  expect(await find("valid")).toBeUndefined();
  valid.add("valid");
  await find("valid");
  valid.clear();
  forget("valid");
  expect(await find("valid")).toBeUndefined();
});

test("Key cache: concurrent callers share a look-up, and unknown keys are not remembered", async () => {
  const { find, looked } = openCache();
  await Promise.all(times(20, () => find("unknown")));
  expect(looked).toEqual(["unknown"]);
  await find("unknown");
  expect(looked).toHaveLength(2);
});

test("Key cache: keeps 10,000 keys", async () => {
  const looked: string[] = [];
  const { find } = createKeyCache(async (digest) => {
    looked.push(digest);
    return KEY;
  });
  for (let i = 0; i <= 10_000; i++) await find(`${i}`);
  await find("1");
  expect(looked).toHaveLength(10_001);
  await find("0");
  expect(looked).toHaveLength(10_002);
});

test("Key cache: is 503 while the services are unreachable, and asks again", async () => {
  let isAway = true;
  const { find } = createKeyCache(async () => {
    if (isAway) throw new Error("connection refused to 10.0.0.7:5432");
    return KEY;
  });
  await expect(find("valid")).rejects.toThrow("The service is temporarily unavailable");
  isAway = false;
  expect(await find("valid")).toEqual(KEY);
});
