import { DefaultLogger, type LogContext, type LoggerOptions } from "@mikro-orm/core";
import { Migrator } from "@mikro-orm/migrations";
import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import type { OnStatement } from "../platform/tracing.ts";
import { OneTimeToken } from "./one-time-tokens.ts";
import { MIGRATIONS } from "./schema.ts";
import { Session } from "./sessions.ts";
import { SigningKey } from "./signing-keys.ts";
import type { Store } from "./store.ts";
import { User } from "./users.ts";

/** Entities. A test compares them with the migrated tables. */
export const entities = [User, Session, OneTimeToken, SigningKey];

/** ORM options of both engines. */
export function ormOptions(log: Logger, onStatement?: OnStatement) {
  return {
    entities,
    extensions: [Migrator],
    migrations: { migrationsList: MIGRATIONS, snapshot: false, silent: true },
    logger: (message: string) => log.debug(message),
    ...(onStatement && {
      loggerFactory: (options: LoggerOptions) =>
        Object.assign(new DefaultLogger(options), {
          logQuery: ({ query = "", took = 0, level }: LogContext) => onStatement(query, took, level === "error"),
        }),
    }),
  };
}

/** Returns a row if the database can be written to. */
export const PING = "select 1 where current_setting('transaction_read_only') = 'off'";

export function assertWritable(rows: unknown[]): void {
  if (rows.length === 0) throw new Error("the database is read-only");
}

/** The part of a store that is the same for both engines. */
export function baseStore(orm: { em: unknown }): Pick<Store, "fork" | "ping"> {
  const em = orm.em as SqlEntityManager;
  return {
    fork: () => em.fork({ useContext: true }), // PGlite has one connection: a query outside the current transaction would wait for ever
    ping: async () => assertWritable(await em.fork().execute(PING)),
  };
}
