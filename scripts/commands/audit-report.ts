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

/** Longest statement in ms. Some read all events of years. */
const STATEMENT_MS = 24 * 3_600_000;

/** Stands in for the key where nothing has been sealed. */
const NO_KEY = { mac: () => Buffer.alloc(0), isMac: () => false };

const FINDINGS: Record<Finding["kind"], string> = {
  edited: "was edited or moved",
  deleted: "was deleted",
  inserted: "was inserted without being recorded",
  late: "was older than 10 minutes when it was sealed: it was inserted under a false date, or nothing sealed the log in time",
  "sealed-twice": "was sealed twice",
  "seal-missing": "is missing",
  restored: "is there although retention has dropped its month",
  "seal-broken": "was changed",
  "seal-forged": "has no MAC of SECRET_KEY: it was forged, or made with another key",
  "dropped-early": "drops events that AUDIT_RETENTION keeps, or not whole months",
  "cut-off": "is not the head that was logged: the end of the chain was cut off or rewritten",
};

/**
 * `npm run audit:verify [-- --head <position>:<hash>]`: verifies the hash chain of the audit log
 * and prints every finding. Exits with 1 if there are findings, with 2 if it failed.
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
      throw new Error("SECRET_KEY must be that of the service: the seals have MACs of it");
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
    throw new Error("--head must be <position>:<hash>, as the process logs them");
  return { position: Number(position), hash };
}

/** What the verification proves, and what it does not. */
function provenBy(known: Head | undefined): string[] {
  if (known)
    return [
      `With --head: what was sealed up to ${known.position} is as it was when that head was logged. Later seals are proven as without --head.`,
    ];
  return [
    "Without --head: every seal was made with SECRET_KEY, and the sealed events are as they were at their seal.",
    "It does not prove that the end of the log is there, nor that an event happened when and as it says: whoever can insert rows can have them sealed. Give a head that the log of the service has kept.",
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
          `Seals 1 to ${authenticFrom - 1} are of an earlier release or key; seal ${authenticFrom} authenticates them.`,
        ]
      : []),
    `Head ${head.position}:${head.hash}`,
  ];
}
