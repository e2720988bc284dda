import { parseArgs } from "node:util";
import { type Finding, type Verification, verifyAudit } from "../../services/audit/verify.ts";
import { createCipher } from "../../services/crypto/cipher.ts";
import { requireConfig } from "../../services/platform/config/config.ts";
import { systemClock } from "../../services/platform/process/clock.ts";
import { createLog } from "../../services/platform/telemetry/log.ts";
import type { Head } from "../../services/store/audit-seals.ts";
import { openStore } from "../../services/store/open-store.ts";
import { checkSchema } from "../../services/store/schema.ts";
import { findSecretKeys } from "../../services/store/secret-keys.ts";

/** Statement timeout in ms. Some statements read the events of years. */
const STATEMENT_MS = 24 * 3_600_000;

/** Used without a key, as long as nothing has been sealed. */
const NO_KEY = { mac: () => Buffer.alloc(0), isMac: () => false };

const FINDINGS: Record<Finding["kind"], string> = {
  edited: "was edited or moved",
  deleted: "was deleted",
  inserted: "was inserted directly, not recorded by the service",
  late: "was older than 10 minutes when it was sealed: its date is false, or the log was not sealed in time",
  "sealed-twice": "was sealed twice",
  "seal-missing": "is missing",
  restored: "exists although retention has dropped its month",
  "seal-broken": "was changed",
  "seal-forged": "has no MAC of SECRET_KEY: it was forged or made with another key",
  "dropped-early": "drops events that AUDIT_RETENTION keeps, or a part of a month",
  "cut-off": "is not the head that was logged: the end of the chain was cut off or rewritten",
};

/**
 * `npm run audit:verify [-- --head <position>:<hash>]`: verifies the hash chain of the audit log
 * and prints all findings. Exits with 1 if there are findings, with 2 if the verification failed.
 */
export async function verifyFromCommandLine(
  args: string[],
  env: Record<string, string | undefined>,
): Promise<void> {
  const started = performance.now();
  const known = readHead(args);
  const config = requireConfig(env, "command");
  const { database, auditRetentionMs: retentionMs } = config;
  const keys = findSecretKeys(config);
  const cipher = keys && createCipher(...keys);
  const location =
    database.kind === "postgres" ? { ...database, statementMs: STATEMENT_MS } : database;
  const log = createLog("warn");
  const store = await openStore(location, log);
  try {
    await checkSchema(store.fork(), log);
    const deps = {
      em: store.fork(),
      cipher: cipher ?? NO_KEY,
      now: systemClock.now(),
      retentionMs,
    };
    const verification = await verifyAudit(deps, known);
    if (!cipher && verification.head.position > 0) {
      throw new Error(
        "SECRET_KEY must be that of the service: the seals contain MACs made with it",
      );
    }
    for (const line of [...linesOf(verification), ...provenBy(known)])
      process.stdout.write(`${line}\n`);
    process.stdout.write(`Verified in ${((performance.now() - started) / 1000).toFixed(1)} s.\n`);
    process.exitCode = verification.findings.length > 0 ? 1 : 0;
  } finally {
    await store.close();
  }
}

function readHead(args: string[]): Head | undefined {
  const { values } = parseArgs({ args, options: { head: { type: "string" } } });
  if (values.head === undefined) return undefined;
  const [, position, hash] = /^(\d+):([0-9a-f]{64})$/.exec(values.head) ?? [];
  if (!position || !hash)
    throw new Error("--head must be <position>:<hash>, as in the log of the service");
  return { position: Number(position), hash };
}

/** Explains what the verification proves. */
function provenBy(known: Head | undefined): string[] {
  if (known)
    return [
      `With --head: events sealed up to position ${known.position} are unchanged since that head was logged. Later ones are verified as without --head.`,
    ];
  return [
    "Without --head: every seal was made with SECRET_KEY, and sealed events are unchanged since their seal.",
    "This does not prove that the log is complete at its end, nor that an event is true: an attacker who can insert rows can have them sealed. Pass a head from the log of the service.",
  ];
}

function linesOf({
  head,
  events,
  dropped,
  unsealed,
  authenticFrom = 1,
  findings,
}: Verification): string[] {
  return [
    ...findings.map(({ kind, id, position }) => {
      if (id) return `Event ${id}${position ? ` (seal ${position})` : ""} ${FINDINGS[kind]}.`;
      return `Seal ${position} ${FINDINGS[kind]}.`;
    }),
    `${findings.length === 0 ? "The audit log is intact" : `${findings.length} findings`}: ${events} sealed events, ` +
      `${dropped} dropped by retention, ${unsealed} not sealed yet.`,
    ...(authenticFrom > 1
      ? [
          `Seals 1 to ${authenticFrom - 1} belong to an earlier release or key; seal ${authenticFrom} authenticates them.`,
        ]
      : []),
    `Head ${head.position}:${head.hash}`,
  ];
}
