import { DefaultLogger, type LogContext, type LoggerOptions } from "@mikro-orm/core";
import { Migrator } from "@mikro-orm/migrations";
import type { Logger } from "pino";
import type { OnStatement } from "../platform/telemetry/tracing.ts";
import { ApiKey } from "./api-keys.ts";
import { Email } from "./emails.ts";
import { OneTimeToken } from "./one-time-tokens.ts";
import { MIGRATIONS } from "./schema.ts";
import { Session } from "./sessions.ts";
import { SigningKey } from "./signing-keys.ts";
import { User } from "./users.ts";

/** All entities. A test compares them with the migrated tables. */
export const entities = [User, Session, OneTimeToken, Email, SigningKey, ApiKey];

/** ORM options for both engines. */
export function ormOptions(log: Logger, onStatement?: OnStatement) {
  return {
    entities,
    extensions: [Migrator],
    migrations: { migrationsList: MIGRATIONS, snapshot: false, silent: true },
    logger: (message: string) => log.debug(message),
    ...(onStatement && {
      loggerFactory: (options: LoggerOptions) =>
        Object.assign(new DefaultLogger(options), {
          logQuery: ({ query = "", took = 0, level }: LogContext) =>
            onStatement(query, took, level === "error"),
        }),
    }),
  };
}

/** Returns a row only if the database is writable. */
export const PING = "select 1 where current_setting('transaction_read_only') = 'off'";

export function assertWritable({ rows }: { rows: unknown[] }): void {
  if (rows.length === 0) throw new Error("the database is read-only");
}
