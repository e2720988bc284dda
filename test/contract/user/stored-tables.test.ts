// What every table about a user meets: impersonation, demotion, deletion, export and erasure.

import { describe, expect, test } from "vitest";
import type { SignedIn } from "../../support/accounts.ts";
import { createKey } from "../../support/api-keys.ts";
import { googleAccount, startExternalApp } from "../../support/external.ts";
import { bearer } from "../../support/http/client.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { until } from "../../support/until.ts";

const { app, prove } = await startExternalApp();
const passkeys = passkeyActions(app);
const ABSENT = "0193a5c2-7b1e-7c3a-9f4d-2b6e8a1c5d70";

type Attempt = [method: string, path: string, body?: object];

/**
 * Tables by which a user signs in or is recognized. `exported`: the list of the export, and what it
 * has of each row; `attempts`: routes that read or write the table.
 */
const TABLES: {
  table: string;
  exported: string;
  columns: string[];
  secrets: string[];
  attempts: Attempt[];
}[] = [
  {
    table: "passkeys",
    exported: "passkeys",
    columns: ["id", "name", "algorithm", "transports", "aaguid", "synced", "createdAt"],
    secrets: ["credential_id", "public_key"],
    attempts: [
      ["GET", "/user/passkeys"],
      ["POST", "/user/passkeys/options", { purpose: "register" }],
      ["PUT", `/user/passkeys/${ABSENT}`, { name: "Theirs" }],
      ["DELETE", `/user/passkeys/${ABSENT}`],
    ],
  },
  {
    table: "identities",
    exported: "identities",
    columns: ["id", "provider", "issuer", "subject", "email", "createdAt"],
    secrets: [],
    attempts: [
      ["GET", "/user/identities"],
      ["POST", "/auth/connect-identity", { identityToken: "x" }],
      ["DELETE", `/user/identities/${ABSENT}`],
    ],
  },
  {
    table: "devices",
    exported: "devices",
    columns: ["id", "label", "ip", "createdAt", "lastUsedAt"],
    secrets: [],
    attempts: [
      ["GET", "/user/devices"],
      ["DELETE", `/user/devices/${ABSENT}`],
    ],
  },
  {
    table: "api_keys",
    exported: "apiKeys",
    columns: ["id", "name", "hint", "createdAt", "expiresAt"],
    secrets: ["digest"],
    attempts: [
      ["POST", "/user/api-keys", { name: "Theirs" }],
      ["DELETE", `/user/api-keys/${ABSENT}`],
    ],
  },
];

/** Tables that keep the id of an erased user, as a pseudonym. */
const KEPT = ["active_users", "audit_events"];

/** A user with rows in each table. */
async function addOwner(changes: { role?: "admin" } = {}): Promise<SignedIn> {
  const account = await app.signIn(await app.addVerifiedUser(changes));
  expect((await passkeys.register(account)).status).toBe(201);
  const identityToken = await prove(account.browser, googleAccount());
  expect((await account.post("/auth/connect-identity", { identityToken })).status).toBe(201);
  await createKey(account);
  expect((await account.put("/user/second-factor", { required: true })).status).toBe(200);
  return account;
}

const rowsOf = (table: string, { id }: { id: string }) =>
  app.sql<Record<string, unknown>>(`select * from ${table} where user_id = ?`, [id]);

/** The rows of a user in each of the tables. */
const allRowsOf = async (user: { id: string }) =>
  Object.fromEntries(
    await Promise.all(TABLES.map(async ({ table }) => [table, await rowsOf(table, user)])),
  );

describe("Tables by which a user signs in or is recognized", () => {
  test.for(TABLES)(
    "$table: is closed to an administrator who impersonates the user",
    async ({ table, attempts }) => {
      const { user } = await addOwner();
      const before = await rowsOf(table, user);
      const admin = await app.signInAdmin();
      const { body } = await admin.post(`/admin/impersonate/${user.id}`, {});
      for (const [method, path, form] of attempts) {
        const { status } = await app
          .httpClient()
          .send(method, path, form, bearer(body.accessToken));
        expect(status, `${method} ${path}`).toBe(403);
      }
      expect(await rowsOf(table, user)).toEqual(before); // nor does the administrator's browser become known
    },
  );

  test.for(TABLES)(
    "$table: is in the export, without its secrets",
    async ({ table, exported, columns, secrets }) => {
      const { user, get } = await addOwner();
      const { body } = await get("/user/export");
      expect(body[exported].map((row: object) => Object.keys(row))).toEqual([columns]);
      const [row] = await rowsOf(table, user);
      for (const column of secrets) {
        const value = row?.[column];
        const bytes = Buffer.from(value as Uint8Array);
        for (const text of [String(value), bytes.toString("base64url"), bytes.toString("hex")])
          expect(JSON.stringify(body)).not.toContain(text);
      }
    },
  );

  test("stay unchanged by a demotion, and then sign in as a user", async () => {
    const { user, browser } = await addOwner({ role: "admin" });
    const before = await allRowsOf(user);
    for (const { table } of TABLES) expect(before[table], table).toHaveLength(1);
    const admin = await app.signInAdmin();
    expect((await app.changeRole(admin, user.id, "user")).status).toBe(200);
    expect(await allRowsOf(user)).toEqual(before);
    const { body } = await browser.post("/auth/login", user.credentials);
    expect(body.mfaMethods).toEqual(["passkey", "backup-code"]);
  });

  test("stay unchanged while a deletion is pending, and a sign-in cancels it", async () => {
    const { user, browser, post } = await addOwner();
    const before = await allRowsOf(user);
    expect((await post("/user/delete-account", {})).status).toBe(200);
    expect(await allRowsOf(user)).toEqual(before);
    const { body } = await browser.post("/auth/login", user.credentials);
    expect(body.mfaMethods).toEqual(["passkey", "backup-code"]);
  });

  test.for([
    { when: "by an administrator", isRequested: false },
    { when: "after the grace period of a deletion", isRequested: true },
  ])(
    "are empty after the user was erased $when, as are all other tables but two",
    async ({ isRequested }) => {
      const { user, post } = await addOwner();
      await app.httpClient().post("/auth/login", user.credentials);
      await app.resetTokenFor(user.email);
      if (isRequested) {
        expect((await post("/user/delete-account", {})).status).toBe(200);
        app.clock.advance("31d");
      } else {
        const admin = await app.signInAdmin();
        expect((await admin.delete(`/admin/users/${user.id}`)).status).toBe(200);
      }
      const find = () => app.sql("select 1 from users where id = ?", [user.id]);
      await until("the account to be erased", async () => (await find()).length === 0);
      const columns = await app.sql<{ table: string }>(
        `select c.table_name as "table" from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
       where c.column_name = 'user_id' and c.table_schema = current_schema() and t.table_type = 'BASE TABLE' and c.table_name not like 'audit_events_%'
       order by 1`,
      );
      const tables = columns.map(({ table }) => table);
      expect(tables).toEqual(expect.arrayContaining(TABLES.map(({ table }) => table)));
      const left = await Promise.all(
        tables.map(async (table) => ((await rowsOf(table, user)).length > 0 ? [table] : [])),
      );
      expect(left.flat().filter((table) => !KEPT.includes(table))).toEqual([]);
      const subject = `${user.id}%`;
      expect(await app.sql("select 1 from attempts where subject like ?", [subject])).toEqual([]);
    },
  );
});
