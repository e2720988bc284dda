/**
 * Runs all checks that do not run the product, as many at once as the machine has cores. The exit
 * code is the number of failed checks.
 */
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";

/** Our own protos. Those of others are in proto/third_party. */
const PROTOS = "proto/gatehouse";

type Outcome = { passed: boolean; output: string };
type Step = { name: string; run: () => Promise<Outcome> };

process.env.REDOCLY_TELEMETRY = "off";
process.env.REDOCLY_SUPPRESS_UPDATE_NOTICE = "true";

/**
 * Runs a command.
 * @returns its standard output, and with that of errors as `output`
 */
const run = (command: string, ...args: string[]) =>
  new Promise<Outcome & { stdout: string }>((resolve) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    let [stdout, output] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (part: string) => (stdout += part));
    for (const stream of [child.stdout, child.stderr.setEncoding("utf8")])
      stream.on("data", (part: string) => (output += part));
    child.once("error", ({ message }) => resolve({ passed: false, output: message, stdout }));
    child.once("close", (code) => resolve({ passed: code === 0, output, stdout }));
  });
const git = (...args: string[]) =>
  execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();

/** The longest come first. */
const steps: Step[] = [
  {
    name: "types of the web app",
    run: () => run("npm", "exec", "-w", "web", "--", "svelte-check", "--fail-on-warnings"),
  },
  { name: "types", run: () => run("tsc", "--noEmit") },
  {
    name: "types of the client, without those of Node",
    run: () => run("tsc", "-p", "client", "--noEmit"),
  },
  { name: "lint and format", run: () => run("biome", "check", "--error-on-warnings", ".") },
  { name: "unused code", run: () => run("knip") },
  {
    name: "OpenAPI document, and its examples",
    run: () => run("redocly", "lint", "--extends=recommended-strict", "gen/openapi.json"),
  },
  {
    name: "import directions",
    run: () => run("vitest", "run", "--project", "parts", "test/architecture"),
  },
  { name: "proto lint", run: () => run("buf", "lint") },
  {
    name: "proto format",
    run: () => run("buf", "format", "--diff", "--exit-code", ".", "--path", PROTOS),
  },
  { name: "proto compatibility", run: staysCompatible },
  { name: "generated code is current", run: generatedIsCurrent },
  { name: "bill of materials: dist/sbom.json", run: writeSbom },
  { name: "known vulnerabilities, for information", run: reportVulnerabilities },
];

const waiting = [...steps];
const failed: string[] = [];
/** Runs one check after the other, and prints the outcome of each. */
async function work(): Promise<void> {
  for (let step = waiting.shift(); step; step = waiting.shift()) {
    const { name } = step;
    const { passed, output } = await step.run();
    process.stdout.write(`\n== ${name}\n${output}`);
    if (!passed) failed.push(name);
  }
}
await Promise.all(Array.from({ length: availableParallelism() }, work));
process.stdout.write(`\n${steps.length - failed.length} passed, ${failed.length} failed\n`);
for (const name of failed) process.stdout.write(`  failed: ${name}\n`);
process.exit(failed.length);

/** The commit to stay compatible with: the main branch, or the previous commit. */
function published(): string | undefined {
  const head = git("rev-parse", "HEAD");
  for (const ref of ["origin/main", "main", "HEAD~1"]) {
    try {
      const commit = git("rev-parse", "--verify", "--quiet", `${ref}^{commit}`);
      if (commit !== head) return commit;
    } catch {
      // no such ref here
    }
  }
  return undefined;
}

async function staysCompatible(): Promise<Outcome> {
  const commit = published();
  if (!commit) return { passed: true, output: "There is no earlier commit.\n" };
  const repository = git("rev-parse", "--path-format=absolute", "--git-common-dir");
  return run("buf", "breaking", "--against", `${repository}#ref=${commit}`);
}

async function generatedIsCurrent(): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-gen-"));
  try {
    const generated = await run("buf", "generate", "-o", folder);
    if (!generated.passed) return generated;
    const rest = ["--recursive", "--brief", "--exclude=openapi.json"];
    return await run("diff", ...rest, "gen", join(folder, "gen"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Writes the packages of a deployment in CycloneDX format. */
async function writeSbom(): Promise<Outcome> {
  const { passed, output, stdout } = await run(
    "npm",
    ...["sbom", "--sbom-format", "cyclonedx", "--omit", "dev"],
  );
  if (!passed) return { passed, output };
  mkdirSync("dist", { recursive: true });
  writeFileSync("dist/sbom.json", stdout);
  const { components } = JSON.parse(stdout) as { components: unknown[] };
  return { passed: components.length > 0, output: `${components.length} packages\n` };
}

/** Always passes: a new advisory must not fail the check of an old commit. */
async function reportVulnerabilities(): Promise<Outcome> {
  const { stdout } = await run("npm", "audit", "--omit=dev", "--json");
  const found = (JSON.parse(stdout || "{}") as { metadata?: { vulnerabilities: object } }).metadata
    ?.vulnerabilities;
  const report = found ? JSON.stringify(found) : "The registry did not answer.";
  return { passed: true, output: `${report}\n` };
}
