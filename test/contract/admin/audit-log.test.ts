import { v7 as uuid } from "uuid";
import { test as base, expect } from "vitest";
import { testApp } from "../../support/app.ts";
import { TEXT, TIME } from "../../support/http/responses.ts";

const app = await testApp();
const test = base.extend("admin", () => app.signInAdmin());

test("GET /admin/audit-logs: returns the documented fields, newest first", async ({ admin }) => {
  const { user, browser } = await app.signIn();
  const { status, body } = await admin.get(`/admin/audit-logs?userId=${user.id}`);
  expect([status, body.total]).toEqual([200, 2]);
  const from = { ip: browser.address, userAgent: TEXT, requestId: TEXT };
  const subject = { event: "auth.login", outcome: "success", userId: user.id, actorId: user.id };
  const details = { method: "password" };
  const { id, name, email } = user;
  const people = { user: { id, name, email }, actor: { id, name, email } };
  const whole = { id: TEXT, ...subject, ...people, ...from, details, createdAt: TIME };
  expect(body.items[0]).toEqual(whole);
  expect(body.items[1].event).toBe("auth.register");
});

test("GET /admin/audit-logs: returns the newest seal and the number of unsealed events", async ({
  admin,
}) => {
  const chain = async () => (await admin.get("/admin/audit-logs?limit=1")).body.chain;
  await expect
    .poll(chain)
    .toMatchObject({ head: expect.stringMatching(/^\d+:[0-9a-f]{64}$/), unsealed: 0 });
  const before = await chain();
  await app.addUser();
  await expect
    .poll(chain)
    .toMatchObject({ head: expect.not.stringMatching(before.head), unsealed: 0 });
  const heads =
    "select position || ':' || encode(head, 'hex') as head from audit_seals order by position desc";
  const [seal] = await app.sql<object>(heads);
  expect(await chain()).toEqual({ ...seal, sealedAt: TEXT, unsealed: 0 });
});

test("GET /admin/audit-logs: filters by user, actor, event and time, and pages by cursor", async ({
  admin,
}) => {
  const user = await app.addUser();
  const find = async (query: string) => {
    const { body } = await admin.get(`/admin/audit-logs?${query}`);
    return body.items.map(({ event }: { event: string }) => event);
  };
  app.clock.advance("1m");
  const between = app.clock.now().toISOString();
  app.clock.advance("1m");
  for (const name of ["Bea", "Cem", "Dora"]) await admin.put(`/admin/users/${user.id}`, { name });
  const updates = Array(3).fill("admin.user_updated");
  expect(await find(`actorId=${admin.user.id}&event=admin.user_updated`)).toEqual(updates);
  expect(await find(`userId=${user.id}&actorId=${admin.user.id}`)).toEqual(updates);
  expect(await find(`userId=${user.id}&from=${between}`)).toEqual(updates);
  expect(await find(`userId=${user.id}&to=${between}`)).toEqual(["auth.register"]);
  expect(await find(`userId=${user.id}&from=${between}&to=${between}`)).toEqual([]);
  expect(await find(`userId=${user.id}&event=auth.login`)).toEqual([]);
  expect(await find(`userId=${uuid()}`)).toEqual([]);
  const first = (await admin.get(`/admin/audit-logs?userId=${user.id}&limit=3`)).body;
  const second = (
    await admin.get(`/admin/audit-logs?userId=${user.id}&limit=3&cursor=${first.nextCursor}`)
  ).body;
  expect(second).toMatchObject({ total: 4, items: [{ event: "auth.register" }] });
  expect(second.nextCursor).toBeUndefined();
});

const REFUSED = ["userId=7", "actorId=x", "from=yesterday", "to=0001-01-01T00:00:00Z", "cursor=x"];
test.for(REFUSED)("GET /admin/audit-logs: rejects %s", async (query, { admin }) => {
  expect((await admin.get(`/admin/audit-logs?${query}`)).status).toBe(400);
});
