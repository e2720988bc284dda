import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { testApp } from "../../support/app.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const { user, headers } = await app.signIn();
const transport = createGrpcTransport({ baseUrl: app.grpcUrl });
const [users, admins] = [
  createClient(UserService, transport),
  createClient(AdminService, transport),
];
const NOBODYS = "019e0000-0000-7000-8000-000000000000";
const LOCAL = expect.stringMatching(/127\.0\.0\.1$/);

/** The line of a request. */
async function lineOf(requestId: string): Promise<object> {
  const find = () =>
    app.logs
      .map((line) => JSON.parse(line))
      .find((line) => line.requestId === requestId && line.level === 30);
  await until(`the line of ${requestId}`, () => find() !== undefined);
  return find();
}

describe("The log line of a request", () => {
  const requests = [
    {
      what: "a success",
      method: "GET",
      path: "/user/profile",
      sent: headers,
      line: { status: 200, userId: user.id },
    },
    {
      what: "a request without a token",
      method: "GET",
      path: "/user/profile",
      sent: {},
      line: { status: 401, code: "UNAUTHENTICATED" },
    },
    {
      what: "a user at a route of administrators",
      method: "GET",
      path: "/admin/users",
      sent: headers,
      line: { status: 403, code: "FORBIDDEN", userId: user.id },
    },
    {
      what: "the session of nobody",
      method: "DELETE",
      path: `/user/sessions/${NOBODYS}`,
      sent: headers,
      line: { status: 404, code: "NOT_FOUND", userId: user.id },
    },
    {
      what: "a malformed id",
      method: "DELETE",
      path: "/user/sessions/none",
      sent: headers,
      line: { status: 400, code: "VALIDATION_FAILED", userId: user.id },
    },
    {
      what: "an unknown path",
      method: "GET",
      path: "/nowhere",
      sent: {},
      line: { status: 404, code: "NOT_FOUND" },
    },
  ];

  test.each(requests)("contains caller, address and reason: $what", async (request) => {
    const requestId = `rest-${request.what.replaceAll(" ", "-")}`;
    await fetch(app.url + request.path, {
      method: request.method,
      headers: { ...request.sent, "x-request-id": requestId },
    });
    const { method, line } = request;
    const absent = ["code", "userId"].filter((key) => !(key in line));
    const logged = await lineOf(requestId);
    expect(logged).toMatchObject({ method, ...line, address: LOCAL });
    expect(absent.filter((key) => key in logged)).toEqual([]);
  });
});

describe("The log line of a failed call to the gRPC port", () => {
  const calls = [
    {
      what: "a call without a token",
      call: (sent: Record<string, string>) => users.getProfile({}, { headers: sent }),
      sent: {},
      line: { rpc: "gatehouse.account.v1.UserService/GetProfile", code: "UNAUTHENTICATED" },
    },
    {
      what: "a user at a method of administrators",
      call: (sent: Record<string, string>) => admins.listUsers({}, { headers: sent }),
      sent: headers,
      line: { code: "FORBIDDEN", userId: user.id },
    },
    {
      what: "the session of nobody",
      call: (sent: Record<string, string>) =>
        users.revokeSession({ id: NOBODYS }, { headers: sent }),
      sent: headers,
      line: { code: "NOT_FOUND", userId: user.id },
    },
    {
      what: "a malformed id",
      call: (sent: Record<string, string>) =>
        users.revokeSession({ id: "none" }, { headers: sent }),
      sent: headers,
      line: { code: "VALIDATION_FAILED", userId: user.id },
    },
  ];

  test.each(calls)(
    "contains caller, address and reason: $what",
    async ({ what, call, sent, line }) => {
      const requestId = `grpc-${what.replaceAll(" ", "-")}`;
      await expect(call({ ...sent, "x-request-id": requestId })).rejects.toThrow();
      expect(await lineOf(requestId)).toMatchObject({ ...line, address: LOCAL });
    },
  );
});
