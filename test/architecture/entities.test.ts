import { MikroORM } from "@mikro-orm/postgresql";
import { expect, test } from "vitest";
import { entities } from "../../services/store/orm.ts";
import { LOCKS } from "../../services/store/store.ts";
import { createDatabase } from "../support/database/databases.ts";
import { openQuietStore } from "../support/database/store.ts";
import { forTest } from "../support/suites.ts";

/**
 * Details of migrations only: keys, indexes and triggers, lengths of texts, precision of times, and
 * defaults.
 */
const MIGRATIONS_OWN =
  /^(drop (index|trigger|function) |alter table "\w+" (drop|add) constraint |alter table "\w+" alter column "\w+" (drop default|type (varchar\(255\)|timestamptz) ))/;

test.skipIf(!process.env.TEST_SERVERS)(
  "Entities: match the columns and types of the migrations",
  async () => {
    const url = await createDatabase("entities");
    const store = await openQuietStore(url);
    await store.migrate();
    await store.close();
    const orm = await forTest(MikroORM.init({ clientUrl: url, entities }));
    const differences = (
      await orm.schema.getUpdateSchemaSQL({ wrap: false, dropTables: false })
    ).split("\n");
    expect(differences.filter((line) => line !== "" && !MIGRATIONS_OWN.test(line))).toEqual([]);
  },
);

test("Advisory locks: every lock has its own number", () => {
  const numbers = Object.values(LOCKS);
  expect(new Set(numbers).size).toBe(numbers.length);
});
