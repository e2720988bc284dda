/** Follows the hash chain over the audit log and tells every row that is not as it was written. */
import { verifyFromCommandLine } from "../services/audit/cli.ts";
import { loadEnvFile } from "../services/platform/process.ts";

loadEnvFile(process.env);
try {
  await verifyFromCommandLine(process.argv.slice(2), process.env);
} catch (error) {
  process.stderr.write(`The audit log could not be looked at: ${(error as Error).message}\n`);
  process.exitCode = 2;
}
