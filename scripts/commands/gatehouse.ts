#!/usr/bin/env node
/** `npx gatehouse <command>`: the commands of package.json for containers, units and people. */
import cluster from "node:cluster";
import { readFileSync } from "node:fs";

const COMMANDS: Record<string, string> = {
  start: "../../gateway/main.ts",
  "start:gateway": "../../gateway/main.ts",
  "start:services": "../../services/main.ts",
  demo: "./demo.ts",
  migrate: "./migrate.ts",
  admin: "./admin.ts",
  "audit:verify": "./audit-verify.ts",
};

if (cluster.isPrimary) cluster.setupPrimary(); // workers run the same command, which the next line takes off
const [command = ""] = process.argv.splice(2, 1);
const script = COMMANDS[command];
if (command === "--version") {
  const { version } = JSON.parse(
    readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
  );
  process.stdout.write(`${version}\n`);
} else if (script) {
  if (command === "start:gateway") process.argv.push("gateway");
  await import(script);
} else {
  process.stderr.write(`gatehouse --version | ${Object.keys(COMMANDS).join(" | ")}\n`);
  process.exitCode = 2;
}
