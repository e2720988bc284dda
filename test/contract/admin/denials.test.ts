import http2 from "node:http2";
import { v7 as uuid } from "uuid";
import { expect, test } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { denialsOf, signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { failureOf, framed, send } from "../../support/raw-grpc.ts";

const app = await testApp();

test("Audit log: a refused administrator action records the e-mail id as a detail, not as a user id", async () => {
  const admin = await signInAdmin(app);
  const { email, id: userId } = await app.addUser();
  await app.mail.emailTo(email);
  await app.sql("update emails set status = 'sent', next_attempt_at = null where user_id = ?", [userId]);
  const [row] = await app.sql<{ id: string }>("select id from emails where user_id = ?", [userId]);
  const emailId = row?.id;
  expect((await admin.post(`/admin/email-logs/${emailId}/retry`)).status).toBe(409);
  expect(await denialsOf(app, admin.user.id)).toEqual([
    { user_id: null, outcome: "failure", reason: "CONFLICT", rpc: "RetryEmail", emailId },
  ]);
});

const ids = [uuid(), "11111111-1111-1111-1111-111111111111"]; // the routes allow ids of any version
test.each(ids)("Audit log: a refused administrator action records the unknown id %s", async (unknownId) => {
  const admin = await signInAdmin(app);
  expect((await admin.put(`/admin/users/${unknownId}`, { name: "Bea" })).status).toBe(404);
  expect((await admin.delete(`/admin/users/${unknownId}`)).status).toBe(404);
  expect((await admin.delete(`/admin/users/${unknownId}/sessions`)).status).toBe(404);
  expect((await admin.post(`/admin/impersonate/${unknownId}`, {})).status).toBe(404);
  expect((await admin.post(`/admin/email-logs/${unknownId}/retry`)).status).toBe(404);
  const unknown = { user_id: unknownId, outcome: "failure", reason: "NOT_FOUND" };
  expect(await denialsOf(app, admin.user.id)).toEqual([
    { ...unknown, rpc: "UpdateUser" },
    { ...unknown, rpc: "DeleteUser" },
    { ...unknown, rpc: "RevokeUserSessions" },
    { ...unknown, rpc: "Impersonate" },
    { ...unknown, user_id: null, rpc: "RetryEmail", emailId: unknownId },
  ]);
});

test("Audit log: a refused action on the caller's own account is no administrator event", async () => {
  const { user, browser, accessToken } = await app.signIn();
  expect(await browser.post("/auth/disable-totp", { password: user.password }, accessToken)).toMatchObject({
    status: 409,
    body: { code: "MFA_NOT_ENABLED" },
  });
  expect(await denialsOf(app, user.id)).toEqual([]);
});

const unreadable: [string, string, Record<string, string>, string?][] = [
  ["PUT", "/admin/users/:id", { "content-type": "application/json" }, "{"],
  ["PUT", "/admin/users/:id", { "content-type": "application/json" }, "[]"],
  ["PUT", "/admin/users/:id", { "content-type": "application/json" }, '{"role":7}'],
  ["PUT", "/admin/users/:id", { "content-type": "text/plain" }, "role=admin"],
  ["POST", "/admin/impersonate/:id", { "content-type": "application/json", "content-encoding": "gzip" }, "{}"],
  ["GET", "/admin/users?limit=many", {}],
  ["GET", "/admin/users?search=%ff", {}],
];

test.each(unreadable)(
  "%s %s: an unreadable request (%j %s) is 403 and recorded for a user, 400 or 415 for an administrator",
  async (method, path, headers, body) => {
    const [{ user, accessToken }, admin, target] = await Promise.all([app.signIn(), signInAdmin(app), app.addUser()]);
    const request = async (token: string) => {
      const url = `${app.url}${path.replace(":id", target.id)}`;
      const authorization = `Bearer ${token}`;
      const response = await fetch(url, { method, headers: { ...headers, authorization }, body: body ?? null });
      return { status: response.status, ...((await response.json()) as { code: string }) };
    };
    expect(await request(accessToken)).toMatchObject({ status: 403, code: "FORBIDDEN" });
    const rpc = { PUT: "UpdateUser", POST: "Impersonate" }[method] ?? "ListUsers";
    const user_id = path.includes(":id") ? target.id : null;
    expect(await denialsOf(app, user.id)).toEqual([{ user_id, outcome: "failure", reason: "FORBIDDEN", rpc }]);
    const { status, code } = await request(admin.accessToken);
    expect([status, code]).toEqual(
      headers["content-type"] === "text/plain" || headers["content-encoding"]
        ? [415, "UNSUPPORTED_MEDIA_TYPE"]
        : [400, path.includes("many") || body?.includes("role") ? "VALIDATION_FAILED" : "MALFORMED_REQUEST"],
    );
    expect(await denialsOf(app, admin.user.id)).toEqual([]);
  },
);

test.each(["application/grpc", "application/grpc-web+json", "application/proto", "application/json"])(
  "UpdateUser as %s: an unreadable message is denied to a user and recorded",
  async (type) => {
    const [{ user, accessToken }, admin] = await Promise.all([app.signIn(), signInAdmin(app)]);
    const session = http2.connect(app.grpcUrl);
    const given = Buffer.from("\xff\xff{", "latin1");
    const isFramed = type.includes("grpc");
    const path = "/gatehouse.account.v1.AdminService/UpdateUser";
    const call = async (token: string) => {
      const headers = { ":path": path, "content-type": type, authorization: `Bearer ${token}` };
      return failureOf(await send(session, headers, isFramed ? framed(given) : given)).reason;
    };
    try {
      expect(await call(accessToken)).toBe(Reason.FORBIDDEN);
      expect(await call(admin.accessToken)).toBe(Reason.MALFORMED_REQUEST);
    } finally {
      session.close();
    }
    expect(await denialsOf(app, user.id)).toEqual([
      { user_id: null, outcome: "failure", reason: "FORBIDDEN", rpc: "UpdateUser" },
    ]);
  },
);
