import { Migrator } from "@mikro-orm/migrations";
import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { MIGRATIONS } from "./migrations.ts";
import { OneTimeToken } from "./one-time-token.ts";
import { Session } from "./session.ts";
import { SigningKey } from "./signing-key.ts";
import type { Store } from "./store.ts";
import { User } from "./user.ts";

/** What the rows are, as the ORM reads and writes them; a test holds them to the migrated tables. */
export const entities = [User, Session, OneTimeToken, SigningKey];

/** What the ORM is told of either engine. */
export function ormOptions(log: Logger) {
  return {
    entities,
    extensions: [Migrator],
    migrations: { migrationsList: MIGRATIONS, snapshot: false, silent: true },
    logger: (message: string) => log.debug(message),
  };
}

/** The parts of a store that both engines have in common. */
export function baseStore(orm: { em: unknown }): Pick<Store, "fork" | "ping"> {
  const em = orm.em as SqlEntityManager;
  return {
    fork: () => em.fork({ useContext: true }), // PGlite has one connection: a query beside its transaction waits for ever
    async ping() {
      const rows = await em.fork().execute("select 1 where current_setting('transaction_read_only') = 'off'");
      if (rows.length === 0) throw new Error("the database takes no writes");
    },
  };
}
