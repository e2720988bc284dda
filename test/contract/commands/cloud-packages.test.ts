import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { startClouds } from "../../support/ai/clouds.ts";
import { freshStorage } from "../../support/database/databases.ts";
import { runScript, startProcess } from "../../support/processes/processes.ts";
import { forTest } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

/** The packages that a process has loaded, and variables that make it write them down. */
function watchPackages() {
  const file = join(temporaryFolder(), "loaded-modules");
  const preload = resolve("test/resilience/preloads/loaded-modules.ts");
  return {
    env: { NODE_OPTIONS: `--import=${preload}`, LOADED_MODULES: file },
    loaded: () =>
      new Set(
        readFileSync(file, "utf8")
          .split("\n")
          .flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? []),
      ),
  };
}

/** The packages of the clouds, which are optional. */
const { peerDependencies } = JSON.parse(readFileSync("package.json", "utf8"));
const OPTIONAL = Object.keys(peerDependencies);

test("Clouds: packages are loaded at the first call, not at the start", async () => {
  const clouds = await forTest(startClouds());
  const { azure, bedrock, vertex } = clouds.identity.env;
  const env = { ...clouds.env, ...azure, ...bedrock, ...vertex };
  const started = watchPackages();
  await forTest(startProcess({ ...env, ...started.env, ...(await freshStorage()) }));
  const atStart = started.loaded();
  expect(atStart).toContain("fastify");
  expect(OPTIONAL.filter((name) => atStart.has(name))).toEqual([]);

  const called = watchPackages();
  const { code } = await runScript("admin", ["check-providers"], { ...env, ...called.env });
  expect(code).toBe(0);
  expect([...called.loaded()]).toEqual(expect.arrayContaining(OPTIONAL));
});
