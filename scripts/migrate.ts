/**
 * Brings the database named by the environment to the current schema, and the audit log's months up to date; any number
 * may run at once.
 */
import { addPartitions, dropPartitions } from "../services/audit/partitions.ts";
import { readConfig } from "../services/config.ts";
import { createLog } from "../services/log.ts";
import { openStore } from "../services/store/orm.ts";

const read = readConfig(process.env);
if ("problems" in read) {
  process.stderr.write(`${read.problems.join("\n")}\n`);
  process.exit(1);
}
const log = createLog(read.config.logLevel);
const store = await openStore(read.config.database, log);
await store.migrate();
const now = new Date();
await addPartitions(store.fork(), now);
if (read.config.auditRetentionMs > 0) {
  await dropPartitions(store.fork(), now, new Date(now.getTime() - read.config.auditRetentionMs));
}
await store.close();
log.info("the database is up to date");
