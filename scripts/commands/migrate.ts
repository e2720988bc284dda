/**
 * Migrates the database to the current schema and updates the partitions of the audit log. Safe to
 * run concurrently.
 */

import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { addPartitions, dropPartitions } from "../../services/audit/worker.ts";
import { createCipher } from "../../services/crypto/cipher.ts";
import { type Config, requireConfig } from "../../services/platform/config/config.ts";
import { createAgreedTime } from "../../services/platform/process/agreed-time.ts";
import { systemClock } from "../../services/platform/process/clock.ts";
import { loadEnvFile } from "../../services/platform/process/env-file.ts";
import { createLog } from "../../services/platform/telemetry/log.ts";
import { isLockTimeout } from "../../services/store/errors.ts";
import { openStore } from "../../services/store/open-store.ts";
import { checkSchema } from "../../services/store/schema.ts";
import { findSecretKeys } from "../../services/store/secret-keys.ts";
import { readDatabaseTime, type Store } from "../../services/store/store.ts";

/**
 * Number of attempts to update the partitions while a long query locks them, and the pause between
 * attempts, in ms.
 */
const TRIES = 5;
const PAUSE_MS = 1_000;

async function migrate(config: Config): Promise<void> {
  const log = createLog(config.logLevel);
  const store = await openStore(config.database, log);
  try {
    await store.migrate();
    await checkSchema(store.fork(), log);
    await updatePartitions(store, config, log);
    log.info("the database is up to date");
  } finally {
    await store.close();
  }
}

/**
 * Updates the partitions, unless the clocks of this process and of the database differ. Dropping
 * old ones requires the secret key of the service, which seals the drop.
 */
async function updatePartitions(
  store: Store,
  config: Config,
  log: Logger,
  tries = TRIES,
): Promise<void> {
  const agreedTime = createAgreedTime({
    clock: systemClock,
    log,
    readDatabaseTime: () => readDatabaseTime({ em: store.fork() }),
  });
  const now = await agreedTime.read();
  if (!now) return;
  try {
    await addPartitions({ em: store.fork() }, now);
    const keys = findSecretKeys(config);
    const cipher = keys && createCipher(...keys);
    const { auditRetentionMs: retentionMs } = config;
    if (cipher && retentionMs > 0) {
      await dropPartitions(
        { em: store.fork(), cipher },
        now,
        new Date(now.getTime() - retentionMs),
      );
    }
  } catch (error) {
    if (!isLockTimeout(error) || tries === 1) throw error;
    await wait(PAUSE_MS);
    await updatePartitions(store, config, log, tries - 1);
  }
}

loadEnvFile(process.env, 2);
try {
  await migrate(requireConfig(process.env, "command"));
} catch (error) {
  if (!(error instanceof Error)) throw error;
  process.stderr.write(`Failed: ${error.message}\n`);
  process.exitCode = 2;
}
