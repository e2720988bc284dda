import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import type { SignedIn } from "../../support/accounts.ts";
import { signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { profileStatus, sessionsOf } from "../../support/sessions.ts";
import { errorOf } from "../../support/stub-transports.ts";
import { tally } from "../../support/until.ts";

const app = await testApp();

/** Opens an impersonation, and ends it by the administrator's logout. @returns the id of its session */
async function endedImpersonation(account: SignedIn): Promise<string> {
  const admin = await signInAdmin(app);
  await admin.post(`/admin/impersonate/${account.user.id}`, {});
  const [{ id, impersonated }] = await sessionsOf(account);
  expect(impersonated).toBe(true);
  await admin.post("/auth/logout");
  return id;
}

test("DELETE /user/sessions/:id: ends one session at once", async () => {
  const user = await app.addUser();
  const [mine, other] = [await app.signIn(user), await app.signIn(user)];
  const target = (await sessionsOf(mine)).find((session: { current: boolean }) => !session.current);
  const answer = await mine.browser.delete(`/user/sessions/${target.id}`, mine.accessToken);
  expect(answer).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  expect([await profileStatus(mine), await profileStatus(other)]).toEqual([200, 401]);
  expect((await other.browser.post("/auth/refresh")).status).toBe(401);
  expect((await mine.browser.delete(`/user/sessions/${target.id}`, mine.accessToken)).status).toBe(404);
});

test("DELETE /user/sessions/:id: ending the caller's own session signs out", async () => {
  const mine = await app.signIn();
  const [{ id }] = await sessionsOf(mine);
  expect((await mine.browser.delete(`/user/sessions/${id}`, mine.accessToken)).status).toBe(200);
  expect(await profileStatus(mine)).toBe(401);
});

test("DELETE /user/sessions/:id: answers 404 to other users', expired and ended ones, impersonations too, and 400 to a malformed id", async () => {
  const [mine, theirs] = [await app.signIn(), await app.signIn()];
  const [{ id }] = await sessionsOf(theirs);
  const [{ id: expired }] = await sessionsOf(await app.signIn(mine.user));
  await app.sql("update sessions set expires_at = ? where id = ?", [app.clock.now(), expired]);
  const impersonation = await endedImpersonation(mine);
  for (const unknown of [id, expired, impersonation, "01890000-0000-7000-8000-000000000000"]) {
    const answer = await mine.browser.delete(`/user/sessions/${unknown}`, mine.accessToken);
    expect(answer).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
  }
  const malformed = await mine.browser.delete("/user/sessions/x", mine.accessToken);
  expect(malformed).toMatchObject({ status: 400, body: { violations: [{ field: "id" }] } });
  expect(await profileStatus(theirs)).toBe(200);
});

test("DELETE /user/sessions: ends every session but the caller's", async () => {
  const user = await app.addUser();
  const [mine, ...others] = [await app.signIn(user), await app.signIn(user), await app.signIn(user)];
  const other = await app.signIn();
  expect((await mine.browser.delete("/user/sessions", mine.accessToken)).status).toBe(200);
  expect(await Promise.all([mine, ...others, other].map(profileStatus))).toEqual([200, 401, 401, 200]);
  expect(await sessionsOf(mine)).toHaveLength(1);
  const again = await mine.browser.delete("/user/sessions", mine.accessToken);
  expect(again).toMatchObject({ status: 200, body: { message: "0 other sessions have ended." } });
});

test("DELETE /user/sessions: does not count expired sessions, nor ended impersonations", async () => {
  const mine = await app.signIn();
  await endedImpersonation(mine);
  const [{ id: expired }] = await sessionsOf(await app.signIn(mine.user));
  await app.sql("update sessions set expires_at = ? where id = ?", [app.clock.now(), expired]);
  expect(await sessionsOf(mine)).toHaveLength(1);
  expect(await mine.browser.delete("/user/sessions", mine.accessToken)).toMatchObject({
    body: { message: "0 other sessions have ended." },
  });
  const admin = await signInAdmin(app);
  expect(await admin.delete(`/admin/users/${mine.user.id}/sessions`)).toMatchObject({
    body: { message: "1 session has ended." },
  });
});

test("ListSessions and RevokeSession: follow the same rules as REST", async () => {
  const user = await app.addUser();
  const [mine, theirs] = [await app.signIn(user), await app.signIn()];
  await app.signIn(user);
  const headers = { authorization: `Bearer ${mine.accessToken}` };
  const client = app.grpc(UserService);
  const { sessions } = await client.listSessions({}, { headers });
  expect(tally(sessions, (s) => String(s.current))).toEqual({ true: 1, false: 1 });
  const [{ id: foreign }] = await sessionsOf(theirs);
  await expect(client.revokeSession({ id: foreign }, { headers })).rejects.toMatchObject({ code: Code.NotFound });
  await client.revokeOtherSessions({}, { headers });
  expect((await client.listSessions({}, { headers })).sessions).toHaveLength(1);
});

test("Ended sessions: requests with their tokens do not use up the rate limit of their user, on either port", async () => {
  const user = await app.addUser();
  const [mine, stolen] = [await app.signIn(user), await app.signIn(user)];
  expect((await mine.browser.delete("/user/sessions", mine.accessToken)).status).toBe(200);
  const headers = { authorization: `Bearer ${stolen.accessToken}` };
  const list = () => errorOf(app.grpc(UserService).listSessions({}, { headers }));
  const overGrpc = [await list(), await list(), await list()];
  expect(overGrpc.map(({ code }) => code)).toEqual([Code.Unauthenticated, Code.Unauthenticated, Code.Unauthenticated]);
  for (let i = 0; i < 12; i++) expect(await profileStatus(stolen)).toBe(401);
  const answer = await mine.browser.get("/user/profile", mine.accessToken);
  expect(Number(answer.headers.get("ratelimit-remaining"))).toBeGreaterThan(90); // each port of a replica counted one
});
