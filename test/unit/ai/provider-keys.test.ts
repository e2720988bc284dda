import { expect, test } from "vitest";
import { ProviderError } from "../../../services/ai/providers/errors.ts";
import { ProviderKeys } from "../../../services/ai/providers/provider-keys.ts";
import { systemClock } from "../../../services/platform/process/clock.ts";
import { startModelServer } from "./model-server.ts";

test.each([{}, { "retry-after-ms": "0" }, { "retry-after-ms": "1" }])(
  "Several keys: a call uses each key once if all are limited: %j",
  async (headers) => {
    const { ask, keys } = await startModelServer("first,second,third", (response) =>
      response.writeHead(429, headers).end(),
    );
    await expect(ask()).rejects.toThrow("rate limited");
    expect(keys.slice(0, 3)).toEqual(["first", "second", "third"]);
    expect(keys).toHaveLength(3 + 2); // with two retries
  },
);

test("Several keys: a key that is set aside is not used next", () => {
  const keys = new ProviderKeys(["first", "second", "third"], systemClock);
  const [first, refused] = [keys.pick(), new ProviderError("refused the key")];
  const second = keys.refuse(first, refused, new Set([first]));
  expect(second?.text).toBe("second");
  expect(keys.pick().text).toBe("second");
  if (second) expect(keys.refuse(second, refused, new Set([second]))?.text).toBe("third");
  const third = keys.pick();
  expect(keys.refuse(third, refused, new Set([third]))).toBeUndefined();
  expect(keys.pick().text).toBe("first"); // it comes back first
});

test("Several keys: a limit without a time sets no key aside, and ends no other time", () => {
  const keys = new ProviderKeys(["first", "second"], systemClock);
  const [first, limited] = [keys.pick(), new ProviderError("rate limited")];
  expect(keys.refuse(first, limited, new Set([first]))?.text).toBe("second");
  expect([keys.setAside, keys.pick()]).toEqual([[], first]);
  keys.refuse(first, new ProviderError("quota exhausted"), new Set([first]));
  keys.refuse(first, limited, new Set([first]));
  expect(keys.setAside).toMatchObject([{ number: 1, reason: "quota exhausted" }]);
});

test("Several keys: a limit sets a key aside for a day at most, whatever time the provider names", () => {
  const dayMs = 24 * 3_600_000;
  for (const retryAfterMs of [2 * dayMs, 1e15, 1e19]) {
    const keys = new ProviderKeys(["first", "second"], systemClock);
    keys.refuse(keys.pick(), new ProviderError("rate limited", { retryAfterMs }), new Set());
    const [{ until } = { until: new Date(0) }] = keys.setAside;
    expect(until.getTime() - Date.now()).toBeGreaterThan(dayMs - 60_000);
    expect(until.getTime() - Date.now()).toBeLessThanOrEqual(dayMs);
  }
});
