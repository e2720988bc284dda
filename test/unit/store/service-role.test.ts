import { randomUUID } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { addPartitions } from "../../../services/audit/worker.ts";
import { ownsPartitions } from "../../../services/store/audit-events.ts";
import { grantServiceRole } from "../../../services/store/schema.ts";
import { startApp } from "../../support/app.ts";
import { createDatabase, runSql } from "../../support/database/databases.ts";
import { openQuietStore } from "../../support/database/store.ts";
import { describeIf, forTest } from "../../support/suites.ts";
import { until } from "../../support/until.ts";

describeIf(process.env.TEST_SERVERS, "Service role with its own schema", async () => {
  const role = `gatehouse_test_${randomUUID().slice(0, 8)}`;
  const url = await createDatabase();
  await runSql(
    url,
    `create schema own; alter database ${new URL(url).pathname.slice(1)} set search_path = own`,
  );
  const owner = await openQuietStore(url);
  await owner.migrate();
  await runSql(
    url,
    `create role ${role} login password 'of its own'; grant create on schema own to public`,
  ); // the default of public before PostgreSQL 15
  await expect(grantServiceRole(owner.fork(), role)).rejects.toThrow(
    /may create objects in the schema own.*revoke create on/,
  );
  await owner.fork().execute("revoke create on schema own from public");
  await grantServiceRole(owner.fork(), role);
  const own = Object.assign(new URL(url), { username: role, password: "of its own" }).href;
  const app = await startApp({ mode: "servers", env: { DATABASE_URL: own, MIGRATE: "off" } });
  afterAll(async () => {
    await app.close();
    await runSql(url, `drop owned by ${role}; drop role ${role}`);
    await owner.close();
  });

  test("finds its migrations in the schema of its tables", async () => {
    await owner.migrate();
    const sql =
      "select distinct schemaname as own from pg_tables where tablename in ('users', 'mikro_orm_migrations')";
    expect(await runSql(url, sql)).toEqual([{ own: "own" }]);
  });

  test("serves requests, and records and seals audit events", async () => {
    const admin = await app.signInAdmin();
    const user = await app.addUser();
    expect((await admin.put(`/admin/users/${user.id}`, { name: "Bea" })).status).toBe(200);
    expect((await admin.delete(`/admin/users/${user.id}`)).status).toBe(200);
    expect((await admin.get(`/admin/audit-logs?userId=${user.id}`)).body.total).toBeGreaterThan(2);
    await until("every event to be sealed", async () => {
      const [row] = await app.sql<{ n: number }>("select count(*)::int as n from audit_unsealed");
      return row?.n === 0;
    });
  });

  test("leaves old months to their owner, and reports missing new ones", async () => {
    expect(app.logs.filter((line) => line.includes("update audit partitions"))).toEqual([]);
    const service = await forTest(openQuietStore(own));
    expect(await ownsPartitions({ em: service.fork() })).toBe(false);
    expect(await ownsPartitions({ em: owner.fork() })).toBe(true);
    await addPartitions({ em: service.fork() }, new Date());
    const later = new Date(Date.now() + 35 * 86_400_000);
    await expect(addPartitions({ em: service.fork() }, later)).rejects.toThrow("permission denied");
  });

  test("cannot change, remove or truncate audit rows, nor drop their triggers", async () => {
    const inherited = "from pg_inherits where inhparent = 'audit_events'::regclass";
    const parts = await runSql(url, `select inhrelid::regclass::text as name ${inherited}`);
    const removals = [
      "delete from T",
      "truncate T",
      "drop table T",
      "alter table T disable trigger all",
    ];
    const forbidden = (name: string) => [
      ...removals,
      `update T set ${name === "audit_seals" ? "head" : "id"} = null`,
    ];
    for (const name of ["audit_events", "audit_seals", ...parts.map((part) => part.name)]) {
      for (const statement of forbidden(name))
        await expect(app.sql(statement.replace("T", name))).rejects.toThrow(
          /permission denied|must be owner/,
        );
    }
  });
});
