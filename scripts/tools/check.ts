/** Runs all checks that do not run the product. The exit code is the number of failed checks. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Our own protos. Those of others are in proto/third_party. */
const PROTOS = "proto/gatehouse";

type Step = { name: string; run: () => boolean };

process.env.REDOCLY_TELEMETRY = "off";
process.env.REDOCLY_SUPPRESS_UPDATE_NOTICE = "true";

const run = (command: string, ...args: string[]) =>
  spawnSync(command, args, { stdio: "inherit" }).status === 0;
const git = (...args: string[]) =>
  execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();

const steps: Step[] = [
  { name: "types", run: () => run("tsc", "--noEmit") },
  {
    name: "types of the client, without those of Node",
    run: () => run("tsc", "-p", "client", "--noEmit"),
  },
  {
    name: "types of the web app",
    run: () => run("npm", "exec", "-w", "web", "--", "svelte-check", "--fail-on-warnings"),
  },
  { name: "lint and format", run: () => run("biome", "check", "--error-on-warnings", ".") },
  { name: "proto lint", run: () => run("buf", "lint") },
  {
    name: "proto format",
    run: () => run("buf", "format", "--diff", "--exit-code", ".", "--path", PROTOS),
  },
  { name: "proto compatibility", run: staysCompatible },
  { name: "generated code is current", run: generatedIsCurrent },
  {
    name: "OpenAPI document, and its examples",
    run: () => run("redocly", "lint", "--extends=recommended-strict", "gen/openapi.json"),
  },
  { name: "unused code", run: () => run("knip") },
  { name: "bill of materials: dist/sbom.json", run: writeSbom },
  { name: "known vulnerabilities, for information", run: reportVulnerabilities },
  {
    name: "import directions",
    run: () => run("vitest", "run", "--project", "parts", "test/architecture"),
  },
];

const failed = steps.filter(({ name, run: step }) => {
  process.stdout.write(`\n== ${name}\n`);
  return !step();
});
process.stdout.write(`\n${steps.length - failed.length} passed, ${failed.length} failed\n`);
for (const { name } of failed) process.stdout.write(`  failed: ${name}\n`);
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

function staysCompatible(): boolean {
  const commit = published();
  if (!commit) return true;
  const repository = git("rev-parse", "--path-format=absolute", "--git-common-dir");
  return run("buf", "breaking", "--against", `${repository}#ref=${commit}`);
}

function generatedIsCurrent(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-gen-"));
  try {
    return (
      run("buf", "generate", "-o", folder) &&
      run("diff", "--recursive", "--brief", "--exclude=openapi.json", "gen", join(folder, "gen"))
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Writes the packages of a deployment in CycloneDX format. */
function writeSbom(): boolean {
  const text = execFileSync("npm", ["sbom", "--sbom-format", "cyclonedx", "--omit", "dev"], {
    encoding: "utf8",
  });
  mkdirSync("dist", { recursive: true });
  writeFileSync("dist/sbom.json", text);
  const { components } = JSON.parse(text) as { components: unknown[] };
  process.stdout.write(`${components.length} packages\n`);
  return components.length > 0;
}

/** Always passes: a new advisory must not fail the check of an old commit. */
function reportVulnerabilities(): boolean {
  const { stdout } = spawnSync("npm", ["audit", "--omit=dev", "--json"], { encoding: "utf8" });
  const found = (JSON.parse(stdout || "{}") as { metadata?: { vulnerabilities: object } }).metadata
    ?.vulnerabilities;
  process.stdout.write(`${found ? JSON.stringify(found) : "The registry did not answer."}\n`);
  return true;
}
