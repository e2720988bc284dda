import { verifyFromCommandLine } from "../services/audit/command.ts";

await verifyFromCommandLine(process.argv.slice(2), process.env);
