import { randomUUID } from "node:crypto";
import { test as base, expect } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import type { TestUser } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { fieldsIn, invalid, sessionShape, userShape } from "../../support/http/responses.ts";

const app = await testApp();
const test = base.extend("admin", () => app.signInAdmin());

/** Adds users whose addresses share a unique word. */
async function group(count: number) {
  const word = randomUUID().slice(0, 13);
  const users = [];
  for (let i = 0; i < count; i++)
    users.push(await app.addUser({ email: `n${i}.${word}@example.com` }));
  return { word, users, newest: users.map(({ id }) => id).reverse() };
}

const idsOf = (items: { id: string }[]) => items.map(({ id }) => id);

test("GET /admin/users: returns the documented fields, newest first, over gRPC too", async ({
  admin,
}) => {
  const { word, users, newest } = await group(3);
  const { status, body } = await admin.get(`/admin/users?search=${word}`);
  expect({ status, body }).toEqual({ status: 200, body: { items: expect.any(Array), total: 3 } });
  const { items, total } = await app.grpc(AdminService).listUsers({ search: word }, admin);
  expect({ ids: idsOf(items), total }).toEqual({ ids: newest, total: 3 });
  expect(idsOf(body.items)).toEqual(newest);
  expect(body.items[2]).toEqual(userShape(users[0] as TestUser));
});

test("GET /admin/users/:id: returns the user as in the list, with the last login", async ({
  admin,
}) => {
  const { user } = await app.signIn();
  app.clock.advance("10m");
  await app.signIn(user);
  const [listed] = (await admin.get(`/admin/users?search=${user.email}`)).body.items;
  expect(app.clock.now().getTime() - new Date(listed.lastLoginAt).getTime()).toBeLessThan(60_000);
  const { status, body } = await admin.get(`/admin/users/${user.id}`);
  expect([status, body]).toEqual([200, listed]);
});

test("GET /admin/users: returns pages by cursor and by number, with the total", async ({
  admin,
}) => {
  const { word, newest } = await group(5);
  const seen: string[] = [];
  let query = `search=${word}&limit=2`;
  for (let cursor = ""; cursor !== undefined; ) {
    const { body } = await admin.get(`/admin/users?${query}`);
    expect(body.total).toBe(5);
    seen.push(...idsOf(body.items));
    cursor = body.nextCursor;
    query = `search=${word}&limit=2&cursor=${cursor}`;
    if (seen.length === 2) await app.addUser({ email: `late.${word}@example.com` });
  }
  expect(seen).toEqual(newest);
  const third = await admin.get(`/admin/users?search=${word}&limit=2&page=3`);
  expect(idsOf(third.body.items)).toEqual(newest.slice(3)); // a newer user precedes them
  expect(third.body).toMatchObject({ total: 6 });
  expect(third.body.nextCursor).toBeUndefined();
});

test("GET /admin/users, search: matches a part of the address or name in any case, whatever its dashes and digits, and wildcards literally", async ({
  admin,
}) => {
  const word = randomUUID().slice(0, 8);
  const user = await app.addUser({
    name: `Zoë 100%_${word} Ärger`,
    email: `MiXed.${word}@Example.com`,
  });
  const find = async (search: string) =>
    idsOf((await admin.get(`/admin/users?search=${encodeURIComponent(search)}`)).body.items);
  for (const search of [`mixed.${word}`, `XED.${word}@EXAM`, `zoë 100%_${word}`, `_${word} är`])
    expect(await find(search)).toEqual([user.id]);
  const long = `mixed.${word}@example.`; // longer than the prefix that the index finds
  expect([await find(`${long}com`), await find(`${long}org`)]).toEqual([[user.id], []]);
  const dashed = await app.addUser({ name: "Ann", email: `ann-1.${word}@example.com` });
  for (const typed of ["ann–1", "ann⁓1", "ann−١", "ａｎｎ－１", "ann\u200d-\u200c1"])
    expect(await find(`${typed}.${word}`)).toEqual([dashed.id]);
  for (const search of [`mixed%${word}`, `mixed_${word}`, `${word}\\`, `com zoë 100%_${word}`])
    expect(await find(search)).toEqual([]);
  expect(await find(word.slice(0, 2))).toContain(user.id);
});

test("GET /admin/users: filters by role, verified address and lock, individually and combined", async ({
  admin,
}) => {
  const { word, users, newest } = await group(4);
  const [a = "", b = "", c = "", d = ""] = users.map(({ id }) => id);
  await app.changeRole(admin, a, "admin");
  await admin.put(`/admin/users/${b}`, { emailVerified: true });
  await app.lock(users[2]?.email ?? "");
  const find = async (query: string) => {
    const { body } = await admin.get(`/admin/users?search=${word}&${query}`);
    expect(body.total).toBe(body.items.length);
    return idsOf(body.items);
  };
  expect(await find("role=admin")).toEqual([a]);
  expect(await find("role=user")).toEqual([d, c, b]);
  expect(await find("emailVerified=true")).toEqual([b]);
  expect(await find("emailVerified=false")).toEqual([d, c, a]);
  expect(await find("locked=true")).toEqual([c]);
  expect(await find("locked=false")).toEqual([d, b, a]);
  expect(await find("role=user&emailVerified=false&locked=false")).toEqual([d]);
  expect(await find("role=admin&locked=true")).toEqual([]);
  app.clock.advance("15m");
  const later = await app.signInAdmin(admin.user);
  expect(idsOf((await later.get(`/admin/users?search=${word}&locked=false`)).body.items)).toEqual(
    newest,
  );
});

test.each([
  ["limit=0", "limit"],
  ["limit=101", "limit"],
  ["limit=-1", "limit"],
  ["limit=4294967296", "limit"],
  ["page=0", "page"],
  ["page=101&limit=100", "page"],
  ["cursor=nonsense", "cursor"],
  ["role=root", "role"],
  ["search=", "search"],
  ["search=%0A", "search"],
  ["search=%E2%80%8B", "search"],
  ["search=%7F", "search"],
  ["search=example%00com", "search"],
])("GET /admin/users: rejects %s", async (query, field) => {
  const answer = await (await app.signInAdmin()).get(`/admin/users?${query}`);
  expect(answer.status).toBe(400);
  expect(fieldsIn(answer)).toEqual([field]);
});

test("GET /admin/users: a cursor cannot be combined with a page, and an invalid cursor is listed with all other violations", async ({
  admin,
}) => {
  const { body } = await admin.get("/admin/users?limit=1");
  const combined = { field: "page", message: "can't be combined with cursor" };
  const refused = await admin.get(`/admin/users?cursor=${body.nextCursor}&page=2`);
  expect(refused).toMatchObject({ status: 400, body: { violations: [combined] } });
  expect(fieldsIn(await admin.get("/admin/users?cursor=nonsense&limit=0"))).toEqual([
    "cursor",
    "limit",
  ]);
});

test("GET, DELETE /admin/users/:id/sessions: list the open sessions as an array, and end all of them", async ({
  admin,
}) => {
  const { user, ...mine } = await app.signIn();
  const list = async (id: string) => (await admin.get(`/admin/users/${id}/sessions`)).body;
  expect(await list(user.id)).toEqual([sessionShape({ current: false })]);
  expect((await list(admin.user.id))[0].current).toBe(true);
  const { browser: other } = await app.signIn(user);
  expect((await admin.delete(`/admin/users/${user.id}/sessions`)).status).toBe(200);
  expect(await mine.profileStatus()).toBe(401);
  expect((await other.post("/auth/refresh")).status).toBe(401);
  expect(await list(user.id)).toEqual([]);
});

test("DELETE /admin/users/:id: erases the user immediately; the audit log keeps a pseudonym", async ({
  admin,
}) => {
  const { user, ...mine } = await app.signIn();
  await app.mail.emailTo(user.email);
  expect((await admin.delete(`/admin/users/${user.id}`)).status).toBe(200);
  expect(await mine.profileStatus()).toBe(401);
  expect((await app.login(user.email)).status).toBe(401);
  expect((await admin.delete(`/admin/users/${user.id}`)).status).toBe(404);
  const { body } = await admin.get(`/admin/audit-logs?userId=${user.id}`);
  const events = body.items.map(({ event }: { event: string }) => event);
  expect(events).toEqual(
    expect.arrayContaining(["user.erased", "admin.user_deleted", "auth.login", "auth.register"]),
  );
  expect(JSON.stringify(body)).not.toContain(user.email);
  expect((await admin.get(`/admin/email-logs?to=${user.email}`)).body.total).toBe(0);
  expect((await app.addUser({ email: user.email })).id).not.toBe(user.id);
});

test("GET /admin/users, sort: by address or time, in both directions, page by page, over REST and gRPC", async ({
  admin,
}) => {
  const word = randomUUID().slice(0, 13);
  const users: TestUser[] = [];
  for (const letter of ["b", "c", "a"])
    users.push(await app.addUser({ email: `${letter}.${word}@example.com` }));
  const [b, c, a] = idsOf(users) as [string, string, string];
  for (const id of [a, b, c])
    await app.sql("update users set suspended_at = now() where id = ?", [id]); // apart from others
  const own = (items: { id: string }[]) => idsOf(items).filter((id) => [a, b, c].includes(id));
  const read = async (sort: string) => {
    const ids: string[] = [];
    for (let cursor = ""; ; ) {
      const query = `suspended=true&limit=1&sort=${sort}${cursor && `&cursor=${cursor}`}`;
      const { body } = await admin.get(`/admin/users?${query}`);
      ids.push(...own(body.items));
      if (!body.nextCursor) return ids;
      cursor = body.nextCursor;
    }
  };
  expect(await read("email")).toEqual([a, b, c]);
  expect(await read("-email")).toEqual([c, b, a]);
  expect(await read("createdAt")).toEqual([b, c, a]);
  expect(await read("-createdAt")).toEqual([a, c, b]);
  const request = { suspended: true, sort: "email", limit: 100 };
  const { items } = await app.grpc(AdminService).listUsers(request, admin);
  expect(own(items)).toEqual([a, b, c]);
});

test("GET /admin/users, sort: by last sign-in, with users who never signed in before all others, page by page", async ({
  admin,
}) => {
  const { users } = await group(4);
  const [first, never, second, third] = idsOf(users) as [string, string, string, string];
  for (const [id, at] of [
    [first, "2020-01-01"],
    [second, "2020-01-02"],
    [third, "2020-01-02"],
    [never, null],
  ] as const)
    await app.sql("update users set suspended_at = now(), last_login_at = ? where id = ?", [
      at,
      id,
    ]);
  const read = async (sort: string) => {
    const ids: string[] = [];
    for (let cursor = ""; ; ) {
      const query = `suspended=true&limit=1&sort=${sort}${cursor && `&cursor=${cursor}`}`;
      const { body } = await admin.get(`/admin/users?${query}`);
      ids.push(...idsOf(body.items).filter((id) => idsOf(users).includes(id)));
      if (!body.nextCursor) return ids;
      cursor = body.nextCursor;
    }
  };
  expect(await read("lastLoginAt")).toEqual([never, first, second, third]);
  expect(await read("-lastLoginAt")).toEqual([third, second, first, never]);
  const request = { suspended: true, sort: "-lastLoginAt", limit: 100 };
  const { items } = await app.grpc(AdminService).listUsers(request, admin);
  expect(idsOf(items).filter((id) => idsOf(users).includes(id))).toEqual([
    third,
    second,
    first,
    never,
  ]);
  const { body } = await admin.get("/admin/users?suspended=true&limit=1&sort=-createdAt");
  const foreign = `/admin/users?suspended=true&limit=1&sort=lastLoginAt&cursor=${body.nextCursor}`;
  expect(await admin.get(foreign)).toMatchObject(invalid("cursor"));
});

test("GET /admin/users, mfaEnabled: lists users with or without two-factor authentication, over gRPC too", async ({
  admin,
}) => {
  const { word, users } = await group(3);
  const protectedUser = users[1] as TestUser;
  await app.setUpFactor(protectedUser);
  const [a, b, c] = idsOf(users) as [string, string, string];
  const read = async (query: string) =>
    idsOf((await admin.get(`/admin/users?${query}`)).body.items);
  expect(await read(`search=${word}&mfaEnabled=true`)).toEqual([b]);
  expect(await read(`search=${word}&mfaEnabled=false`)).toEqual([c, a]);
  expect(await read("mfaEnabled=true&limit=100")).toContain(b);
  const { items } = await app
    .grpc(AdminService)
    .listUsers({ search: word, mfaEnabled: true }, admin);
  expect(idsOf(items)).toEqual([b]);
  expect(await admin.get("/admin/users?mfaEnabled=maybe")).toMatchObject(invalid("mfaEnabled"));
});

test("GET /admin/users, sort: rejects other orders, a search, and the cursor of an erased user", async ({
  admin,
}) => {
  for (const query of ["sort=name", "sort=email&search=ann"])
    expect(await admin.get(`/admin/users?${query}`)).toMatchObject(invalid("sort"));
  await group(2);
  const { body } = await admin.get("/admin/users?sort=-email&limit=1&role=user");
  await admin.delete(`/admin/users/${body.items[0].id}`);
  const next = `/admin/users?sort=-email&limit=1&role=user&cursor=${body.nextCursor}`;
  expect(await admin.get(next)).toMatchObject(invalid("cursor"));
});
