import { once } from "node:events";
import { type IncomingMessage, request as send } from "node:http";
import { Code } from "@connectrpc/connect";
import { test as base, expect } from "vitest";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { freshEmail, NEW_PASSWORD, PASSWORD, type SignedIn } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { commitMeanwhile } from "../../support/database/transaction.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { errorOf } from "../../support/http/stub-services.ts";

const app = await testApp();
const test = base
  .extend("mine", () => app.signIn())
  .extend("other", ({ mine }) => app.signIn(mine.user));

/**
 * Opens an impersonation, and ends it by the administrator's logout.
 * @returns the id of its session
 */
async function endedImpersonation(account: SignedIn): Promise<string> {
  const admin = await app.signInAdmin();
  await admin.post(`/admin/impersonate/${account.user.id}`, {});
  const [{ id, impersonated }] = await account.sessions();
  expect(impersonated).toBe(true);
  await admin.post("/auth/logout");
  return id;
}

/**
 * Opens a session of the user that has expired.
 * @returns its id
 */
async function expiredSession({ user }: SignedIn): Promise<string> {
  const [{ id }] = await (await app.signIn(user)).sessions();
  await app.sql("update sessions set expires_at = ? where id = ?", [app.clock.now(), id]);
  return id;
}

test("DELETE /user/sessions/:id: ends one session immediately, even the caller's own", async ({
  mine,
  other,
}) => {
  const [target, own] = await mine.sessions();
  const answer = await mine.delete(`/user/sessions/${target.id}`);
  expect(answer).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  expect([await mine.profileStatus(), await other.profileStatus()]).toEqual([200, 401]);
  expect((await other.browser.post("/auth/refresh")).status).toBe(401);
  expect((await mine.delete(`/user/sessions/${target.id}`)).status).toBe(404);
  expect((await mine.delete(`/user/sessions/${own.id}`)).status).toBe(200);
  expect(await mine.profileStatus()).toBe(401);
});

test("PUT /user/profile: is 401 if the session ends before the body has arrived", async ({
  mine,
  other,
}) => {
  const [target] = await mine.sessions();
  const headers = {
    authorization: `Bearer ${other.accessToken}`,
    "content-type": "application/json",
    expect: "100-continue",
  };
  const request = send(`${app.url}/user/profile`, { method: "PUT", headers });
  await once(request, "continue"); // the request is admitted
  expect((await mine.delete(`/user/sessions/${target.id}`)).status).toBe(200);
  const answered = once(request, "response");
  request.end('{"name":"Bea"}');
  const [{ statusCode }] = (await answered) as [IncomingMessage];
  expect(statusCode).toBe(401);
});

test("DELETE /user/sessions/:id: is 404 for expired, ended and foreign sessions, and 400 for a malformed id", async () => {
  const [mine, theirs] = [await app.signIn(), await app.signIn()];
  const [{ id }] = await theirs.sessions();
  const ended = [await expiredSession(mine), await endedImpersonation(mine)];
  for (const unknown of [id, ...ended, "01890000-0000-7000-8000-000000000000"])
    expect(await mine.delete(`/user/sessions/${unknown}`)).toMatchObject(refusal(404, "NOT_FOUND"));
  expect(await mine.delete("/user/sessions/x")).toMatchObject(invalid("id"));
  expect(await theirs.profileStatus()).toBe(200);
});

test("DELETE /user/sessions: ends every session except the caller's", async ({ mine, other }) => {
  const all = [mine, other, await app.signIn(mine.user), await app.signIn()];
  expect((await mine.delete("/user/sessions")).status).toBe(200);
  expect(await Promise.all(all.map((each) => each.profileStatus()))).toEqual([200, 401, 401, 200]);
  expect(await mine.sessions()).toHaveLength(1);
});

test("/user/sessions: expired sessions and ended impersonations are neither listed nor counted", async ({
  mine,
}) => {
  await endedImpersonation(mine);
  await expiredSession(mine);
  expect(await mine.sessions()).toHaveLength(1);
  const none = { status: 200, body: { message: "0 other sessions have ended." } };
  expect(await mine.delete("/user/sessions")).toMatchObject(none);
  const admin = await app.signInAdmin();
  const answer = await admin.delete(`/admin/users/${mine.user.id}/sessions`);
  expect(answer.body.message).toBe("1 session has ended.");
});

test("Ended sessions do not use up the rate limit of their user, on either port", async ({
  mine,
  other,
}) => {
  expect((await mine.delete("/user/sessions")).status).toBe(200);
  const list = () => errorOf(app.grpc(UserService).listSessions({}, other));
  for (let i = 0; i < 3; i++) expect((await list()).code).toBe(Code.Unauthenticated);
  for (let i = 0; i < 12; i++) expect(await other.profileStatus()).toBe(401);
  const answer = await mine.get("/user/profile");
  expect(Number(answer.headers.get("ratelimit-remaining"))).toBeGreaterThan(90); // each port of a replica counted one
});

type Change = { method: string; path: string; body?: object };
const CHANGES: Change[] = [
  { method: "DELETE", path: "/user/sessions" },
  { method: "DELETE", path: "/user/sessions/:id" },
  {
    method: "POST",
    path: "/user/change-password",
    body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD },
  },
  {
    method: "POST",
    path: "/user/change-email",
    body: { newEmail: freshEmail(), password: PASSWORD },
  },
  { method: "POST", path: "/user/delete-account" },
  { method: "POST", path: "/auth/setup-totp" },
];

test.runIf(app.mode !== "embedded").for(CHANGES)(
  "$method $path: changes nothing if the caller's session ends first",
  async ({ method, path, body }, { mine, other }) => {
    const { user } = mine;
    const [{ id }] = await mine.sessions(); // that of the other session, the newest
    const row =
      "select u.*, (select count(*) from one_time_tokens where user_id = u.id) from users u where id = ?";
    const before = await app.sql(row, [user.id]);
    const lock = "select 1 from users where id = $1 for no key update";
    const end = "update sessions set revoked_at = now() where user_id = $1 and id <> $2";
    const ask = () => mine.browser.send(method, path.replace(":id", id), body, mine.headers);
    const url = app.settings.DATABASE_URL as string;
    const response = await commitMeanwhile(url, lock, [user.id], ask, [[end, [user.id, id]]]);
    expect(response).toMatchObject(refusal(401, "UNAUTHENTICATED"));
    expect(await other.profileStatus()).toBe(200);
    expect(await app.sql(row, [user.id])).toEqual(before);
  },
);
