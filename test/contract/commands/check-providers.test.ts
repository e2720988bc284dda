import { describe, expect, test } from "vitest";
import { startProviderSimulator } from "../../../scripts/simulators/simulator.ts";
import { CLOUDS, startClouds } from "../../support/ai/clouds.ts";
import { runScript } from "../../support/processes/processes.ts";
import { forTest } from "../../support/suites.ts";

const check = (env: Record<string, string>) => runScript("admin", ["check-providers"], env);

describe("npm run admin -- check-providers", () => {
  test("calls each configured provider once, and names the missing variable of the others", async () => {
    const works = await forTest(startProviderSimulator({ dialect: "openai" }));
    const fails = await forTest(startProviderSimulator({ dialect: "anthropic" }));
    const { code, out } = await check({
      ...works.env,
      ...fails.env,
      ANTHROPIC_API_KEY: "wrong-secret-key",
    });
    const lines = out.trim().split("\n");
    expect(lines).toEqual([
      expect.stringMatching(/^provider-a: model-a-1 works, \d+ ms$/),
      expect.stringMatching(/^provider-b: model-b-1 failed: refused the key \(HTTP 401\), \d+ ms$/),
      "provider-c: not configured, since GEMINI_API_KEY is missing",
      "provider-d: not configured, since MISTRAL_API_KEY is missing",
    ]);
    expect(code).toBe(1);
    expect(works.requests).toHaveLength(1);
    expect(fails.requests).toHaveLength(1);
  });

  test("calls the clouds with the credentials of the process, in a separate process", async () => {
    const clouds = await forTest(startClouds());
    const { azure, bedrock, vertex } = clouds.identity.env;
    const { code, out } = await check({ ...clouds.env, ...azure, ...bedrock, ...vertex });
    for (const { id } of CLOUDS) expect(out).toMatch(new RegExp(`^${id}: ${id}-model works,`, "m"));
    expect(code).toBe(0);
  });

  test("explains an invalid catalogue to operators", async () => {
    const { code, out } = await check({ AI_CATALOG: "/nowhere.json" });
    expect(code).toBe(2);
    expect(out).toContain("AI_CATALOG: the catalogue of AI providers");
  });
});
