import { parseArgs } from "node:util";
import { readConfig } from "../config.ts";
import { createLog } from "../platform/log.ts";
import { openStore } from "../store/store.ts";
import type { Head } from "./chain.ts";
import { type Finding, type Verification, verifyAudit } from "./verify.ts";

/** How long one statement may take, in ms: some read a log of years from its first event on. */
const STATEMENT_MS = 24 * 3_600_000;

const told: Record<Finding["kind"], string> = {
  edited: "was edited",
  deleted: "was deleted",
  reordered: "was moved to another place",
  inserted: "was put into the log past its recorder",
  "sealed-twice": "was put into the chain a second time",
  "seal-missing": "is missing",
  "seal-broken": "was changed",
  "cut-off": "is not the head that the log has shown: the end was cut off or rewritten",
};

/**
 * `npm run audit:verify [-- --head <position>:<hash>]`: follows the hash chain over the audit log and tells every row
 * that is not as it was written. Exits with 1 if there is one, with 2 if it could not look.
 */
export async function verifyFromCommandLine(args: string[], env: Record<string, string | undefined>): Promise<void> {
  const started = performance.now();
  const known = readHead(args);
  const read = readConfig(env);
  if ("problems" in read) throw new Error(read.problems.join("\n"));
  const { database } = read.config;
  const patient = database.kind === "postgres" ? { ...database, statementMs: STATEMENT_MS } : database;
  const store = await openStore(patient, createLog("warn"));
  try {
    const verification = await verifyAudit(store.fork(), known);
    for (const line of linesOf(verification)) process.stdout.write(`${line}\n`);
    process.stdout.write(`Looked at in ${((performance.now() - started) / 1000).toFixed(1)} s.\n`);
    process.exitCode = verification.findings.length > 0 ? 1 : 0;
  } finally {
    await store.close();
  }
}

function readHead(args: string[]): Head | undefined {
  const { values } = parseArgs({ args, options: { head: { type: "string" } } });
  if (values.head === undefined) return undefined;
  const [, position, hash] = /^(\d+):([0-9a-f]{64})$/.exec(values.head) ?? [];
  if (!position || !hash) throw new Error("--head must be <position>:<hash>, as the log shows them");
  return { position: Number(position), hash };
}

function linesOf({ head, events, dropped, unsealed, findings }: Verification): string[] {
  return [
    ...findings.map(({ kind, id, position, until }) => {
      if (id) return `Event ${id}${position ? ` (seal ${position})` : ""} ${told[kind]}.`;
      return `Seal ${position}${until ? ` (and every one up to ${until})` : ""} ${told[kind]}.`;
    }),
    `${findings.length === 0 ? "The audit log is whole" : `${findings.length} faults`}: ${events} sealed events, ` +
      `${dropped} dropped by retention, ${unsealed} not sealed yet.`,
    `Head ${head.position}:${head.hash}`,
  ];
}
