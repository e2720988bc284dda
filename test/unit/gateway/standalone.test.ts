import { expect, test } from "vitest";
import { accountsAt } from "../../support/accounts.ts";
import { createKey } from "../../support/api-keys.ts";
import { freshStorage } from "../../support/database/databases.ts";
import { createHttpClient } from "../../support/http/client.ts";
import { startApart, startProcess } from "../../support/processes/processes.ts";
import { forTest } from "../../support/suites.ts";

const WARNING = "REDIS_URL is not set: each gateway counts rate limits separately";
const cases: { when: string; env: Record<string, string>; warns: boolean }[] = [
  { when: "without Redis", env: {}, warns: true },
  { when: "without limits", env: { RATE_LIMITS: "off" }, warns: false },
];
if (process.env.TEST_SERVERS)
  cases.push({
    when: "with Redis",
    env: { REDIS_URL: process.env.TEST_REDIS_URL as string },
    warns: false,
  });

test.each(cases)(
  "Standalone gateway: logs at the start whether it counts limits separately, $when",
  async ({ env, warns }) => {
    const shared = {
      SERVICES_URL: "http://127.0.0.1:9",
      INTERNAL_SECRET: "between-gateway-and-services",
    };
    const gateway = await forTest(startProcess({ ...shared, ...env }));
    expect(gateway.output().includes(WARNING)).toBe(warns);
  },
);

test("Standalone gateway: finds API keys over gRPC, refuses a revoked one at its next call, and is 503 without services", async () => {
  const { gateway, services } = await forTest(startApart(await freshStorage()));
  const account = await accountsAt(gateway.url).signIn();
  const { key, apiKey } = await createKey(account);
  const ask = async () => (await createHttpClient(gateway.url).get("/ai/providers", key)).status;
  expect([await ask(), await ask()]).toEqual([200, 200]);
  await account.delete(`/user/api-keys/${apiKey.id}`);
  expect(await ask()).toBe(401);
  await services.end("SIGKILL");
  expect(await ask()).toBe(503);
});
