/**
 * Brings the database named by the environment to the current schema, and the audit log's months up to date; any number
 * may run at once.
 */
import { addPartitions, dropPartitions } from "../services/audit/partitions.ts";
import { type Config, readConfig } from "../services/config.ts";
import { loadEnvFile } from "../services/env-file.ts";
import { createLog } from "../services/log.ts";
import { openStore } from "../services/store/orm.ts";

async function migrate({ database, logLevel, auditRetentionMs }: Config): Promise<void> {
  const log = createLog(logLevel);
  const store = await openStore(database, log);
  try {
    await store.migrate();
    const now = new Date();
    await addPartitions(store.fork(), now);
    if (auditRetentionMs > 0) await dropPartitions(store.fork(), now, new Date(now.getTime() - auditRetentionMs));
    log.info("the database is up to date");
  } finally {
    await store.close();
  }
}

loadEnvFile();
try {
  const read = readConfig(process.env);
  if ("problems" in read) throw new Error(read.problems.join("\n"));
  await migrate(read.config);
} catch (error) {
  if (!(error instanceof Error)) throw error;
  process.stderr.write(`It didn't work: ${error.message}\n`);
  process.exitCode = 2;
}
