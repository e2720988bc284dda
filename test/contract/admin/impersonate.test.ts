import { decodeJwt } from "jose";
import { test as base, expect } from "vitest";
import { NEW_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { commitMeanwhile } from "../../support/database/transaction.ts";
import { bearer, withToken } from "../../support/http/client.ts";
import { refusal } from "../../support/http/responses.ts";
import { tally } from "../../support/tally.ts";

const app = await testApp();
const test = base.extend("admin", () => app.signInAdmin()).extend("user", () => app.addUser());
const url = app.settings.DATABASE_URL as string;

test("POST /admin/impersonate/:userId: opens a marked session of 15 minutes without a refresh token", async () => {
  const admin = await app.signInAdmin();
  const own = await app.signIn(await app.addVerifiedUser());
  const { user } = own;
  const { status, body, headers } = await admin.post(`/admin/impersonate/${user.id}`, {
    reason: "Ticket 7",
  });
  expect([status, headers.get("set-cookie")]).toEqual([200, null]);
  expect(Object.keys(body).sort()).toEqual(["accessToken", "expiresAt", "user"]);
  const claims = decodeJwt(body.accessToken);
  expect(claims).toMatchObject({ sub: user.id, act: { sub: admin.user.id }, type: "access" });
  expect(body.user).toMatchObject({
    id: user.id,
    emailVerified: true,
    passwordExpiresAt: expect.any(String),
  });
  const impersonated = withToken(app.httpClient(), body.accessToken);
  expect((await impersonated.get("/user/profile")).body).toEqual(body.user);
  const { body: sessions } = await admin.get(`/admin/users/${user.id}/sessions`);
  expect(sessions.map(({ impersonated }: { impersonated?: true }) => impersonated)).toEqual([
    true,
    undefined,
  ]);
  expect(await own.profileStatus()).toBe(200);
  app.clock.advance("15m");
  expect(await impersonated.profileStatus()).toBe(401);
});

const ENDS = ["logout", "revocation", "demotion", "deletion"];
test.for(ENDS)(
  "POST /admin/impersonate/:userId: the session ends with the administrator's %s",
  async (end, { admin, user }) => {
    const chief = await app.signInAdmin();
    const { body } = await admin.post(`/admin/impersonate/${user.id}`, {});
    expect(await app.profileStatus(body.accessToken)).toBe(200);
    if (end === "logout") await admin.post("/auth/logout");
    if (end === "revocation") await chief.delete(`/admin/users/${admin.user.id}/sessions`);
    if (end === "demotion") await app.changeRole(chief, admin.user.id, "user");
    if (end === "deletion") await chief.delete(`/admin/users/${admin.user.id}`);
    expect(await app.profileStatus(body.accessToken)).toBe(401);
    expect((await chief.get(`/admin/users/${user.id}/sessions`)).body).toEqual([]);
  },
);

test("POST /admin/impersonate/:userId: the session ends no later than the administrator's", async ({
  admin,
  user,
}) => {
  const end = new Date(app.clock.now().getTime() + 60_000);
  await app.sql("update sessions set expires_at = ? where user_id = ?", [end, admin.user.id]);
  const { body } = await admin.post(`/admin/impersonate/${user.id}`, {});
  expect(body.expiresAt).toBe(end.toISOString());
});

test("POST /admin/impersonate/:userId: is 404 for a user who is about to be erased", async ({
  admin,
  user,
}) => {
  await app.sql("update users set deletion_at = ? where id = ?", [app.clock.now(), user.id]); // erased within a minute
  expect((await admin.post(`/admin/impersonate/${user.id}`, {})).status).toBe(404);
});

const raced = test.runIf(app.mode !== "embedded"); // with a transaction of another connection

raced(
  "POST /admin/impersonate/:userId: is refused for a user who is promoted in the meantime",
  async ({ admin, user }) => {
    const promotion = "update users set role = 'admin' where id = $1";
    const impersonate = () => admin.post(`/admin/impersonate/${user.id}`, {});
    const response = await commitMeanwhile(url, promotion, [user.id], impersonate);
    expect(response).toMatchObject(refusal(409, "CONFLICT"));
  },
);

/** Ends of an administrator's session before the commit. */
const RACERS = ["update sessions set revoked_at = now()", "delete from sessions"];
raced.for(RACERS)(
  "POST /admin/impersonate/:userId: is refused after a concurrent %s",
  async (racer, { admin, user }) => {
    const lock = "select 1 from users where id = $1 for update";
    const end: [string, unknown[]] = [`${racer} where user_id = $1`, [admin.user.id]];
    const impersonate = () => admin.post(`/admin/impersonate/${user.id}`, {});
    const response = await commitMeanwhile(url, lock, [user.id], impersonate, [end]);
    expect(response).toMatchObject(refusal(401, "UNAUTHENTICATED"));
    expect(await app.auditOf(user.id, "admin.impersonated")).toEqual([]);
  },
);

test("POST /admin/impersonate/:userId: never displaces the user's own sessions, but new sign-ins of the user displace it", async () => {
  const admin = await app.signInAdmin();
  const { user, ...own } = await app.signIn();
  await app.sql(
    `insert into sessions select (jsonb_populate_record(s, jsonb_build_object(
           'id', gen_random_uuid(), 'actor_id', ?::text, 'created_at', s.created_at + n * interval '1 ms'))).*
         from sessions s, generate_series(1, 99) n where s.user_id = ?`,
    [admin.user.id, user.id],
  );
  const kinds = async () => {
    const { body } = await admin.get(`/admin/users/${user.id}/sessions`);
    return tally(body as { impersonated?: true }[], ({ impersonated }) =>
      impersonated ? "impersonated" : "own",
    );
  };
  expect(await kinds()).toEqual({ own: 1, impersonated: 99 });
  expect((await admin.post(`/admin/impersonate/${user.id}`, {})).status).toBe(200);
  expect(await kinds()).toEqual({ own: 1, impersonated: 99 });
  await app.signIn(user);
  expect(await kinds()).toEqual({ own: 2, impersonated: 98 });
  expect(await own.profileStatus()).toBe(200);
});

test("POST /admin/impersonate/:userId: account changes are forbidden, and each attempt is recorded", async ({
  admin,
  user,
}) => {
  const { body: opened } = await admin.post(`/admin/impersonate/${user.id}`, {});
  const { password } = user;
  const [own] = (await (await app.signIn(user)).get("/user/sessions")).body;
  const passwords = { currentPassword: password, newPassword: NEW_PASSWORD };
  const address = { newEmail: "other@example.com", password };
  const attempts: { method: string; path: string; body?: object }[] = [
    { method: "POST", path: "/user/change-password", body: passwords },
    { method: "POST", path: "/user/change-email", body: address },
    { method: "POST", path: "/user/delete-account", body: {} },
    { method: "POST", path: "/auth/setup-totp" },
    { method: "POST", path: "/auth/disable-totp", body: { password } },
    { method: "POST", path: "/auth/backup-codes", body: { password, code: "123456" } },
    { method: "GET", path: "/user/export" },
    { method: "PUT", path: "/user/profile", body: { name: "Renamed" } },
    { method: "DELETE", path: "/user/sessions" },
    { method: "DELETE", path: `/user/sessions/${own.id}` },
  ];
  for (const { method, path, body } of attempts) {
    const { status } = await app.httpClient().send(method, path, body, bearer(opened.accessToken));
    expect(status, `${method} ${path}`).toBe(403);
  }
  const denied = await app.denialsOf(admin.user.id);
  expect(denied.map(({ user_id }) => user_id)).toEqual(attempts.map(() => user.id));
});
