import { v7 as uuid } from "uuid";
import { expect, test } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { SignedIn } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { failureOf, framed, send, withSession } from "../../support/grpc.ts";
import { invalid, refusal } from "../../support/http/responses.ts";

const app = await testApp();

const ids = [uuid(), "11111111-1111-1111-1111-111111111111"]; // the routes allow ids of any version
test.each(ids)(
  "Audit log: a refused action of an administrator records the unknown id %s",
  async (id) => {
    const admin = await app.signInAdmin();
    const answers = [
      await admin.put(`/admin/users/${id}`, { name: "Bea" }),
      await admin.delete(`/admin/users/${id}`),
      await admin.delete(`/admin/users/${id}/sessions`),
      await admin.post(`/admin/impersonate/${id}`, {}),
      await admin.post(`/admin/email-logs/${id}/retry`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404]);
    const denial = { user_id: id, outcome: "failure", reason: "NOT_FOUND" };
    const rpcs = ["UpdateUser", "DeleteUser", "RevokeUserSessions", "Impersonate"];
    const ofEmail = { ...denial, user_id: null, rpc: "RetryEmail", emailId: id };
    expect(await app.denialsOf(admin.user.id)).toEqual([
      ...rpcs.map((rpc) => ({ ...denial, rpc })),
      ofEmail,
    ]);
  },
);

test("Audit log: a refused action on the caller's own account is not an administrator event", async () => {
  const { user, post } = await app.signIn();
  const answer = await post("/auth/disable-totp", { password: user.password });
  expect(answer).toMatchObject(refusal(409, "MFA_NOT_ENABLED"));
  expect(await app.denialsOf(user.id)).toEqual([]);
});

/** Method and path, headers, body, and the answer to an administrator. */
const unreadable: [string, Record<string, string>, string | undefined, object][] = [
  ["PUT /admin/users/:id", {}, "{", refusal(400, "MALFORMED_REQUEST")],
  ["PUT /admin/users/:id", {}, "[]", refusal(400, "MALFORMED_REQUEST")],
  ["PUT /admin/users/:id", {}, '{"role":7}', invalid("role")],
  [
    "PUT /admin/users/:id",
    { "content-type": "text/plain" },
    "role=admin",
    refusal(415, "UNSUPPORTED_MEDIA_TYPE"),
  ],
  [
    "POST /admin/impersonate/:id",
    { "content-encoding": "gzip" },
    "{}",
    refusal(415, "UNSUPPORTED_MEDIA_TYPE"),
  ],
  ["GET /admin/users?limit=many", {}, undefined, invalid("limit")],
  ["GET /admin/users?search=%ff", {}, undefined, refusal(400, "MALFORMED_REQUEST")],
];

test.each(unreadable)(
  "%s: an unreadable request (%j %s) is 401 without a token, 403 and recorded for a user, %j for an administrator",
  async (route, headers, body, answer) => {
    const [mine, admin, target] = await Promise.all([
      app.signIn(),
      app.signInAdmin(),
      app.addUser(),
    ]);
    const [method = "", path = ""] = route.replace(":id", target.id).split(" ");
    const request = (caller?: SignedIn) =>
      app.httpClient().send(method, path, body, { ...headers, ...caller?.headers });
    expect((await request()).status).toBe(401);
    expect(await request(mine)).toMatchObject(refusal(403, "FORBIDDEN"));
    const rpc = { PUT: "UpdateUser", POST: "Impersonate" }[method] ?? "ListUsers";
    const user_id = route.includes(":id") ? target.id : null;
    expect(await app.denialsOf(mine.user.id)).toEqual([
      { user_id, outcome: "failure", reason: "FORBIDDEN", rpc },
    ]);
    expect(await request(admin)).toMatchObject(answer);
    expect(await app.denialsOf(admin.user.id)).toEqual([]);
  },
);

const TYPES = [
  "application/grpc",
  "application/grpc-web+json",
  "application/proto",
  "application/json",
];
test.each(TYPES)(
  "UpdateUser as %s: an unreadable message is denied to a user and recorded",
  async (type) => {
    const [mine, admin] = await Promise.all([app.signIn(), app.signInAdmin()]);
    const given = Buffer.from("\xff\xff{", "latin1");
    const isFramed = type.includes("grpc");
    const path = "/gatehouse.account.v1.AdminService/UpdateUser";
    await withSession(app.grpcUrl, async (session) => {
      const call = async (caller: SignedIn) => {
        const headers = { ":path": path, "content-type": type, ...caller.headers };
        return failureOf(await send(session, headers, isFramed ? framed(given) : given)).reason;
      };
      expect(await call(mine)).toBe(Reason.FORBIDDEN);
      expect(await call(admin)).toBe(Reason.MALFORMED_REQUEST);
    });
    const denial = { user_id: null, outcome: "failure", reason: "FORBIDDEN", rpc: "UpdateUser" };
    expect(await app.denialsOf(mine.user.id)).toEqual([denial]);
  },
);
