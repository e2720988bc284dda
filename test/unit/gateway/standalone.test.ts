import { expect, test } from "vitest";
import { startProcess } from "../../support/processes/processes.ts";
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
  "Standalone gateway: logs at start whether it counts limits by itself, $when",
  async ({ env, warns }) => {
    const shared = {
      SERVICES_URL: "http://127.0.0.1:9",
      INTERNAL_SECRET: "between-gateway-and-services",
    };
    const gateway = await forTest(startProcess({ ...shared, ...env }));
    expect(gateway.output().includes(WARNING)).toBe(warns);
  },
);
