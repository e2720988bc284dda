import { MikroORM } from "@mikro-orm/postgresql";
import { expect, test } from "vitest";
import { createLog } from "../../services/platform/log.ts";
import { openStore } from "../../services/store/open-store.ts";
import { entities } from "../../services/store/orm.ts";
import { createDatabase } from "../support/databases.ts";

/** Details of migrations only: keys, indexes and triggers, lengths of texts, precision of times, and defaults. */
const MIGRATIONS_OWN =
  /^(drop (index|trigger|function) |alter table "\w+" (drop|add) constraint |alter table "\w+" alter column "\w+" (drop default|type (varchar\(255\)|timestamptz) ))/;

test.skipIf(!process.env.TEST_SERVERS)("Entities: have the columns and types of the migrations", async () => {
  const url = await createDatabase("entities");
  const store = await openStore({ kind: "postgres", url }, createLog("silent"));
  await store.migrate();
  await store.close();
  const orm = await MikroORM.init({ clientUrl: url, entities });
  try {
    const differences = (await orm.schema.getUpdateSchemaSQL({ wrap: false, dropTables: false })).split("\n");
    expect(differences.filter((line) => line !== "" && !MIGRATIONS_OWN.test(line))).toEqual([]);
  } finally {
    await orm.close();
  }
});
