/** Verifies the hash chain of the audit log and prints every row that was changed. */

import { loadEnvFile } from "../../services/platform/process/env-file.ts";
import { verifyFromCommandLine } from "./audit-report.ts";

loadEnvFile(process.env, 2);
try {
  await verifyFromCommandLine(process.argv.slice(2), process.env);
} catch (error) {
  process.stderr.write(`The audit log could not be checked: ${(error as Error).message}\n`);
  process.exitCode = 2;
}
