import { Code } from "@connectrpc/connect";
import { test as base, describe, expect } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { WRONG_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { refusal } from "../../support/http/responses.ts";
import { statusesOf, tallyGuesses, times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const test = base.extend("admin", () => app.signInAdmin());
const ABSENT = "00000000-0000-7000-8000-000000000000";

const roleOf = async (id: string) =>
  (await app.sql<{ role: string }>("select role from users where id = ?", [id]))[0]?.role;

describe("PUT /admin/users/:id: a change of role", () => {
  const unconfirmed = [
    { what: "without a password", given: {}, refused: refusal(403, "REAUTHENTICATION_REQUIRED") },
    {
      what: "with a wrong password",
      given: { password: WRONG_PASSWORD },
      refused: refusal(400, "INVALID_CURRENT_PASSWORD"),
    },
    {
      what: "with an empty password",
      given: { password: "" },
      refused: refusal(400, "VALIDATION_FAILED"),
    },
  ];
  for (const { what, given, refused } of unconfirmed)
    for (const role of ["admin", "user"] as const)
      test(`to ${role} ${what} is refused, whether or not the user exists`, async ({ admin }) => {
        const other = await app.addUser(role === "user" ? { role: "admin" } : {});
        const before = await roleOf(other.id);
        for (const id of [other.id, ABSENT])
          expect(await admin.put(`/admin/users/${id}`, { role, ...given })).toMatchObject(refused);
        expect(await roleOf(other.id)).toBe(before);
      });

  test("requires the password over gRPC too", async ({ admin }) => {
    const client = app.grpc(AdminService);
    const { id } = await app.addUser();
    const update = (password?: string) =>
      client.updateUser({ id, role: "admin", ...(password && { password }) }, admin);
    await expect(update()).rejects.toMatchObject({ code: Code.PermissionDenied });
    await expect(update(WRONG_PASSWORD)).rejects.toMatchObject({ code: Code.InvalidArgument });
    expect((await update(admin.user.password)).user?.role).toBe("admin");
  });

  test("requires the caller's password, not the user's", async ({ admin }) => {
    const user = await app.addUser();
    const password = "Other-password-3";
    expect((await app.resetPassword(await app.resetTokenFor(user.email), password)).status).toBe(
      200,
    );
    const path = `/admin/users/${user.id}`;
    const refused = refusal(400, "INVALID_CURRENT_PASSWORD");
    expect(await admin.put(path, { role: "admin", password })).toMatchObject(refused);
    expect((await app.changeRole(admin, user.id, "admin")).body.user.role).toBe("admin");
  });

  test("evaluates at most five concurrent wrong passwords, then locks confirmations for 15 minutes", async ({
    admin,
  }) => {
    const targets = await Promise.all(times(4, () => app.addUser()));
    const answers = await Promise.all(
      times(24, (i) =>
        admin.put(`/admin/users/${targets[i % 4]?.id}`, {
          role: "admin",
          password: WRONG_PASSWORD,
        }),
      ),
    );
    expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 19 });
    const [target] = targets;
    const locked = refusal(423, "ACCOUNT_LOCKED");
    expect(await app.changeRole(admin, target?.id ?? "", "admin")).toMatchObject(locked);
    expect((await app.login(admin.user.email)).status).toBe(200); // sign-ins are counted apart
    app.clock.advance("15m");
    const later = await app.signIn(admin.user);
    expect((await app.changeRole(later, target?.id ?? "", "admin")).status).toBe(200);
  });

  test("applies all or none of the changes in one request", async ({ admin }) => {
    const { id } = await app.addUser();
    const changes = { role: "admin", name: "Bea" };
    expect((await admin.put(`/admin/users/${id}`, changes)).status).toBe(403);
    const [row] = await app.sql("select role, name from users where id = ?", [id]);
    expect(row).toEqual({ role: "user", name: "Ann Example" });
  });

  test("of one user by many concurrent callers happens once per role, and each change is announced", async () => {
    const admins = await Promise.all(times(4, () => app.signInAdmin()));
    const { id } = await app.addUser();
    const statuses = await statusesOf(8, (i) =>
      app.changeRole(admins[i % 4] as (typeof admins)[0], id, i % 2 ? "admin" : "user"),
    );
    expect(statuses).toEqual({ 200: 8 });
    const sent = await app.sql<{ template: string; role: string }>(
      "select template, facts->>'role' as role from emails where user_id = ? order by id",
      [id],
    );
    const changes = sent.filter(({ template }) => template === "role-changed");
    expect(changes.at(-1)?.role).toBe(await roleOf(id));
    changes.forEach(({ role }, i) => {
      expect(role).toBe(i % 2 ? "user" : "admin"); // each announces a change, in the order of the changes
    });
  });
});

describe("E-mails about a change of role", () => {
  const changes = [
    { role: "admin", from: "user", name: "administrator" },
    { role: "user", from: "admin", name: "user" },
  ] as const;
  test.for(changes)(
    "go to the user and to every administrator: $role",
    async ({ role, from, name }, { admin }) => {
      const user = await app.addUser(from === "admin" ? { role: from } : {});
      const bystander = await app.addUser({ role: "admin" });
      expect((await app.changeRole(admin, user.id, role)).status).toBe(200);
      expect((await app.mail.emailTo(user.email, /Your role/)).text).toContain(`now: ${name}.`);
      for (const { email } of [admin.user, bystander]) {
        const { text } = await app.mail.emailTo(email, /role of a user/);
        for (const part of [user.email, admin.user.email, `now: ${name}.`])
          expect(text).toContain(part);
      }
    },
  );

  test("are sent even after many changes within an hour", async ({ admin }) => {
    const users = await Promise.all(times(7, () => app.addUser()));
    for (const { id } of users) expect((await app.changeRole(admin, id, "admin")).status).toBe(200);
    const told = "select facts->>'email' as email from emails where user_id = ? and template = ?";
    const rows = await app.sql<{ email: string }>(told, [admin.user.id, "administrators-changed"]);
    const addresses = rows.map(({ email }) => email);
    expect(addresses).toEqual(expect.arrayContaining(users.map(({ email }) => email)));
  });

  test("are not sent if the role does not change", async ({ admin }) => {
    const user = await app.addUser();
    expect((await app.changeRole(admin, user.id, "user")).status).toBe(200);
    const told = "select 1 from emails where user_id = ? and template = 'role-changed'";
    expect(await app.sql(told, [user.id])).toEqual([]);
  });
});

describe("Someone who was an administrator in the last 7 days", () => {
  /** Demotes a new administrator. */
  async function demote() {
    const [admin, victim] = [await app.signInAdmin(), await app.addUser({ role: "admin" })];
    await app.sql("update users set mfa_secret = 'set' where id = ?", [victim.id]);
    expect((await app.changeRole(admin, victim.id, "user")).status).toBe(200);
    return { admin, victim };
  }
  const attempts = [
    { what: "the address", method: "PUT", change: { email: "taken-over@example.com" } },
    { what: "the spelling of the address", method: "PUT", change: "capitals" },
    { what: "the verification", method: "PUT", change: { emailVerified: true } },
    { what: "the second factor", method: "PUT", change: { mfaEnabled: false } },
    { what: "their identity by impersonation", method: "POST", change: {} },
  ] as const;
  test.for(attempts)("does not let others change $what", async ({ method, change }) => {
    const { admin, victim } = await demote();
    const path = method === "PUT" ? "/admin/users" : "/admin/impersonate";
    const body = change === "capitals" ? { email: victim.email.toUpperCase() } : change;
    const take = (by: typeof admin) =>
      by[method === "PUT" ? "put" : "post"](`${path}/${victim.id}`, body);
    const refused = refusal(409, "CONFLICT");
    expect(await take(admin)).toMatchObject(refused);
    app.clock.advance("167h");
    expect(await take(await app.signIn(admin.user))).toMatchObject(refused);
    app.clock.advance("2h");
    const unique = { email: `moved-${victim.id}@example.com` };
    const allowed = "email" in body && change !== "capitals" ? unique : body;
    const later = await app.signIn(admin.user);
    const { status } = await later[method === "PUT" ? "put" : "post"](
      `${path}/${victim.id}`,
      allowed,
    );
    expect(status).toBe(200);
  });

  test("is protected from a second account that the same administrator promoted", async () => {
    const { admin, victim } = await demote();
    const second = await app.signIn();
    expect((await app.changeRole(admin, second.user.id, "admin")).status).toBe(200);
    const change = { email: "second-account@example.com" };
    const refused = refusal(409, "CONFLICT");
    expect(await second.put(`/admin/users/${victim.id}`, change)).toMatchObject(refused);
    expect((await app.changeRole(second, victim.id, "admin")).status).toBe(200);
    expect(await second.put(`/admin/users/${victim.id}`, change)).toMatchObject(refused);
  });

  test("can be renamed, unlocked, signed out and deleted", async () => {
    const { admin, victim } = await demote();
    const path = `/admin/users/${victim.id}`;
    const statuses = [
      await admin.put(path, { name: "Bea", locked: false }),
      await admin.delete(`${path}/sessions`),
      await admin.delete(path),
    ].map(({ status }) => status);
    expect(statuses).toEqual([200, 200, 200]);
    await until("the user to be erased", async () => (await roleOf(victim.id)) === undefined);
  });
});
