import type { JsonObject } from "@bufbuild/protobuf";
import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import { expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { createService } from "../../support/api-keys.ts";
import { startSuiteApp, testApp } from "../../support/app.ts";
import { failureOf, head, send, withSession } from "../../support/grpc.ts";
import { bearer, withToken } from "../../support/http/client.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { errorOf } from "../../support/http/stub-services.ts";
import { times } from "../../support/tally.ts";

const app = await testApp();
const service = app.grpc(AdminService);

/** An object in so many objects: 1 is the object alone. */
const nested = (levels: number): JsonObject => (levels === 1 ? {} : { inside: nested(levels - 1) });
/** An object with so many bytes of JSON, an even number. Its text has two bytes per character. */
const sized = (bytes: number) => ({ text: "é".repeat((bytes - 18) / 2), a: "" });

const KEPT: { what: string; metadata: JsonObject }[] = [
  {
    what: "values of every type",
    metadata: { plan: "team", seats: 25, trial: false, note: null, tags: ["a", 1, null, {}, []] },
  },
  { what: "numbers at the bounds", metadata: { n: [2 ** 53 - 1, 1 - 2 ** 53, 0.1, 5e-324, 0] } },
  {
    what: "names of JavaScript",
    metadata: JSON.parse('{"__proto__":{"a":1},"constructor":1,"toString":"x","":"","a.b":1}'),
  },
  { what: "the whole of Unicode", metadata: { "ключ 🗝️": "\u2028 \\u0000 é" } },
  { what: "eight levels", metadata: nested(8) },
];

test.for(KEPT)(
  "PUT /admin/users/:id, metadata: stores $what unchanged, over REST and gRPC",
  async ({ metadata }) => {
    const [admin, account] = [await app.signInAdmin(), await app.signIn()];
    const { id } = account.user;
    const { status, body } = await admin.put(`/admin/users/${id}`, { metadata });
    expect([status, JSON.stringify(body.user.metadata)]).toEqual([200, JSON.stringify(metadata)]);
    const { user } = await service.getUser({ id }, admin);
    expect(JSON.stringify(user?.metadata)).toBe(JSON.stringify(metadata));
    await admin.put(`/admin/users/${id}`, { metadata: {} });
    const { user: changed } = await service.updateUser({ id, metadata }, admin);
    expect(changed?.metadata).toEqual(metadata);
    const own = await account.get("/user/profile");
    expect(JSON.stringify(own.body.metadata)).toBe(JSON.stringify(metadata));
  },
);

test("PUT /admin/users/:id, metadata: accepts 4,096 bytes of JSON, which the user and administrators can read", async () => {
  const [admin, account] = [await app.signInAdmin(), await app.signIn()];
  const { id, email } = account.user;
  const metadata = sized(4_096);
  expect(Buffer.byteLength(JSON.stringify(metadata))).toBe(4_096);
  expect((await admin.put(`/admin/users/${id}`, { metadata })).body.user.metadata).toEqual(
    metadata,
  );
  const { body: list } = await admin.get(`/admin/users?search=${encodeURIComponent(email)}`);
  expect(list.items).toMatchObject([{ id, metadata }]);
  expect((await account.get("/user/profile")).body.metadata).toEqual(metadata);
  const { user } = await app.grpc(UserService).getProfile({}, account);
  expect(user?.metadata).toEqual(metadata);
  expect((await account.get("/user/export")).body.profile.metadata).toEqual(metadata);
});

test("PUT /admin/users/:id, metadata: is replaced as a whole, unchanged if absent, and removed by an empty object", async () => {
  const [admin, account] = [await app.signInAdmin(), await app.signIn()];
  const { id } = account.user;
  const put = async (body: object) => (await admin.put(`/admin/users/${id}`, body)).body.user;
  expect(await put({ name: "Bea" })).not.toHaveProperty("metadata");
  await put({ metadata: { plan: "team", limits: { seats: 5 } } });
  const replaced = { limits: { calls: 9 } };
  expect((await put({ metadata: replaced })).metadata).toEqual(replaced);
  expect((await put({ name: "Cleo" })).metadata).toEqual(replaced);
  expect((await put({ metadata: null })).metadata).toEqual(replaced); // null is absent, as everywhere
  expect(await put({ metadata: {} })).not.toHaveProperty("metadata");
  expect((await account.get("/user/profile")).body).not.toHaveProperty("metadata");
});

const REFUSED: { what: string; json: string }[] = [
  { what: "a number that would be rounded", json: '{"id":9007199254740993}' },
  { what: "the same below zero", json: '{"a":[{"id":-9007199254740993}]}' },
  { what: "a number beyond all", json: '{"n":1e999}' },
  { what: "nine levels", json: JSON.stringify(nested(9)) },
  { what: "nine levels of lists", json: '{"a":[[[[[[[[]]]]]]]]}' },
  { what: "more than 4,096 bytes", json: JSON.stringify(sized(4_098)) },
  { what: "a list", json: "[]" },
  { what: "a text", json: '"{}"' },
  { what: "a number", json: "7" },
];
test.for(REFUSED)("PUT /admin/users/:id, metadata: rejects $what", async ({ json }) => {
  const [admin, user] = [await app.signInAdmin(), await app.addUser()];
  const answer = await admin.put(`/admin/users/${user.id}`, `{"name":"Bea","metadata":${json}}`);
  expect(answer).toMatchObject(invalid("metadata"));
  const { body: unchanged } = await admin.get(`/admin/users/${user.id}`);
  expect([unchanged.name, unchanged.metadata]).toEqual([user.name, undefined]);
});

test.for(['{"a\\u0000":1}', '{"a":"\\u0000"}', '{"\\ud800":1}', '{"a":1,"a":2}'])(
  "PUT /admin/users/:id, metadata: rejects %s as a malformed body",
  async (json) => {
    const [admin, user] = [await app.signInAdmin(), await app.addUser()];
    const answer = await admin.put(`/admin/users/${user.id}`, `{"metadata":${json}}`);
    expect(answer).toMatchObject(refusal(400, "MALFORMED_REQUEST"));
  },
);

const REFUSED_BY_GRPC: { what: string; metadata: JsonObject }[] = [
  { what: "NaN", metadata: { n: Number.NaN } },
  { what: "infinity", metadata: { n: [Number.NEGATIVE_INFINITY] } },
  { what: "a number that may have been rounded", metadata: { id: 2 ** 53 } },
  { what: "nine levels", metadata: nested(9) },
  { what: "more than 4,096 bytes", metadata: sized(4_098) },
  { what: "a NUL character in a name", metadata: { a: { "b\0": 1 } } },
];
test.for(REFUSED_BY_GRPC)("gRPC UpdateUser, metadata: rejects $what", async ({ metadata }) => {
  const [admin, user] = [await app.signInAdmin(), await app.addUser()];
  const error = await errorOf(service.updateUser({ id: user.id, metadata }, admin));
  const [failure] = error.findDetails(FailureSchema);
  expect(failure?.reason).toBe(Reason.VALIDATION_FAILED);
  expect(failure?.violations.map(({ field }) => field)).toEqual(["metadata"]);
});

test("gRPC UpdateUser, metadata: rejects sixty levels, and JSON that PostgreSQL cannot store", async () => {
  const [admin, user] = [await app.signInAdmin(), await app.addUser()];
  const deep = await errorOf(service.updateUser({ id: user.id, metadata: nested(60) }, admin));
  expect(deep.findDetails(FailureSchema)[0]?.reason).toBe(Reason.MALFORMED_REQUEST);
  const path = "/gatehouse.account.v1.AdminService/UpdateUser";
  const asJson = { ...head(path, admin.headers), "content-type": "application/json" };
  for (const json of ['{"a":["\\ud800"]}', '{"\\ud800":1}', '{"a\\u0000":1}', '{"n":1e999}']) {
    const body = Buffer.from(`{"id":"${user.id}","metadata":${json}}`);
    const answer = await withSession(app.grpcUrl, (session) => send(session, asJson, body));
    expect(failureOf(answer).reason, json).toBe(Reason.VALIDATION_FAILED);
  }
});

test("PUT /admin/users/:id, metadata: the audit log records the change without the values", async () => {
  const [admin, user] = [await app.signInAdmin(), await app.addUser()];
  await admin.put(`/admin/users/${user.id}`, { metadata: { plan: "secret-plan" } });
  const events = await app.auditOf(user.id, "admin.user_updated");
  expect(events).toMatchObject([{ actor_id: admin.user.id, details: { fields: ["metadata"] } }]);
  expect(JSON.stringify([events, app.logs])).not.toContain("secret-plan");
});

test("PUT /admin/users/:id, metadata: works for service accounts, and users cannot change their own", async () => {
  const [admin, account] = [await app.signInAdmin(), await app.signIn()];
  const { id } = await createService(app);
  const metadata = { costCentre: "7" };
  expect((await admin.put(`/admin/users/${id}`, { metadata })).body.user.metadata).toEqual(
    metadata,
  );
  await account.put("/user/profile", { name: "Bea", metadata });
  const path = `/admin/users/${account.user.id}`;
  expect(await account.put(path, { metadata })).toMatchObject(refusal(403, "FORBIDDEN"));
  expect((await account.get("/user/profile")).body).not.toHaveProperty("metadata");
});

test("Access tokens: have no claim `metadata` unless TOKEN_METADATA is set", async () => {
  const [admin, account] = [await app.signInAdmin(), await app.signIn()];
  await admin.put(`/admin/users/${account.user.id}`, { metadata: { tier: "team" } });
  const { body } = await app.login(account.user.email);
  expect(decodeJwt(body.accessToken)).not.toHaveProperty("metadata");
  expect(body.user).not.toHaveProperty("metadata");
});

const NAMES = "plan, seats,sub,role,exp,__proto__";
const claiming = await startSuiteApp({ env: { TOKEN_METADATA: NAMES } });
const jwks = createRemoteJWKSet(new URL("/.well-known/jwks.json", claiming.url));
/** The claims as another service reads them, which knows the public keys alone. */
async function verified(token: string) {
  const rules = { issuer: "http://gatehouse.test", audience: "gatehouse" };
  return (await jwtVerify(token, jwks, { ...rules, currentDate: claiming.clock.now() })).payload;
}

test("TOKEN_METADATA: tokens contain the chosen members in a separate claim, and none replaces another claim", async () => {
  const [admin, user] = [await claiming.signInAdmin(), await claiming.addUser()];
  const chosen = JSON.parse('{"plan":"team","sub":"root","role":"admin","exp":1,"__proto__":[1]}');
  const metadata = { ...chosen, internal: "not for tokens" };
  await admin.put(`/admin/users/${user.id}`, { metadata });
  const { body } = await claiming.login(user.email);
  const claims = await verified(body.accessToken);
  expect(claims).toMatchObject({ sub: user.id, role: "user", email: user.email, type: "access" });
  expect(claims.exp).toBe((claims.iat as number) + 900);
  expect(JSON.stringify(claims.metadata)).toBe(JSON.stringify(chosen));
  expect(decodeJwt(body.refreshToken)).not.toHaveProperty("metadata");
  expect(await claiming.profileStatus(body.accessToken)).toBe(200);
});

test("TOKEN_METADATA: a refreshed token contains the newest values, over REST and gRPC, and no claim if there are none", async () => {
  const [admin, account] = [await claiming.signInAdmin(), await claiming.signIn()];
  const { id } = account.user;
  expect(await verified(account.accessToken)).not.toHaveProperty("metadata");
  await admin.put(`/admin/users/${id}`, { metadata: { plan: "team", seats: 25 } });
  const first = (await claiming.refresh(account.refreshToken)).body;
  expect((await verified(first.accessToken)).metadata).toEqual({ plan: "team", seats: 25 });
  await claiming.grpc(AdminService).updateUser({ id, metadata: { seats: 26, other: 1 } }, admin);
  const second = (await claiming.refresh(first.refreshToken)).body;
  expect((await verified(second.accessToken)).metadata).toEqual({ seats: 26 });
  await admin.put(`/admin/users/${id}`, { metadata: { other: 1 } });
  const third = (await claiming.refresh(second.refreshToken)).body;
  expect(await verified(third.accessToken)).not.toHaveProperty("metadata");
});

test("TOKEN_METADATA: tokens of a second factor and of an impersonation contain the metadata of the user", async () => {
  const admin = await claiming.signInAdmin();
  const { user, authenticator } = await claiming.setUpFactor();
  const metadata = { plan: "team" };
  await admin.put(`/admin/users/${user.id}`, { metadata });
  const signedIn = await claiming.signInBy(user, { code: await authenticator.code() });
  expect((await verified(signedIn.body.accessToken)).metadata).toEqual(metadata);
  const { body } = await admin.post(`/admin/impersonate/${user.id}`, {});
  expect(await verified(body.accessToken)).toMatchObject({ act: { sub: admin.user.id }, metadata });
  expect(body.user.metadata).toEqual(metadata);
  const impersonated = withToken(claiming.httpClient(), body.accessToken);
  expect((await impersonated.get("/user/profile")).body.metadata).toEqual(metadata);
});

test("TOKEN_METADATA: the longest token is shorter than 6.5 KiB, and accepted on both ports", async () => {
  const [admin, user] = [await claiming.signInAdmin(), await claiming.addUser()];
  const metadata = { plan: "é".repeat((4_096 - 11) / 2) };
  await admin.put(`/admin/users/${user.id}`, { metadata });
  const { accessToken } = (await claiming.login(user.email)).body;
  expect((await verified(accessToken)).metadata).toEqual(metadata);
  expect(accessToken.length).toBeLessThan(6.5 * 1024);
  const asks = times(3, () => claiming.profileStatus(accessToken));
  expect(await Promise.all(asks)).toEqual([200, 200, 200]);
  const own = await claiming.grpc(UserService).getProfile({}, { headers: bearer(accessToken) });
  expect(own.user?.metadata).toEqual(metadata);
});
