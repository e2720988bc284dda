import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, type ConnectError } from "@connectrpc/connect";
import { v7 as uuid } from "uuid";
import { describe, expect, test } from "vitest";
import { Access } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { bearer } from "../../support/http/client.ts";
import { routes } from "./routes.ts";

const app = await testApp();
const adminRoutes = routes.filter(({ access }) => access === Access.ADMIN);

/** The user of every request. No request may change the account. */
const target = await app.addUser();
const ids = { existing: target.id, absent: uuid() };

/** A change of role, which the caller confirms. */
const PROMOTION = { role: "admin", password: PASSWORD };
/** Bodies of those routes that require one. */
const BODIES: Record<string, object> = {
  CreateServiceAccount: { name: "Report" },
  CreateServiceAccountKey: { name: "CI" },
  InviteUser: { email: target.email, name: "Bea" }, // the address has an account
  SetBudget: {
    ...{ scope: "user", subject: target.id, unit: "tokens", period: "day", limit: "900000" },
  },
  AdjustBudget: { used: "1", reason: "A bill" },
  CreateWebhook: { url: "https://hooks.example.com", events: ["user.erased"] },
  ReplayWebhook: { from: "2020-01-01T00:00:00Z" },
};
/** Those that are written differently over gRPC. */
const GRPC_BODIES: Record<string, object> = {
  ReplayWebhook: { from: timestampFromDate(new Date("2020-01-01T00:00:00Z")) },
};

/**
 * Routes that erase the user, or whose id is that of an e-mail, a key, a budget, a webhook or a
 * delivery.
 */
const NOT_FOR_BYSTANDER = [
  ...["DeleteUser", "PreviewEmail", "RetryEmail", "UpdateApiKey", "DeleteBudget", "AdjustBudget"],
  ...["UpdateWebhook", "DeleteWebhook", "RotateWebhookSecret", "TestWebhook", "ReplayWebhook"],
  "RetryWebhookDelivery",
];
/** Routes that refuse this user: one who was an administrator lately, and no service account. */
const CONFLICTING = ["Impersonate", "CreateServiceAccountKey"];

type Route = (typeof routes)[number];

async function impersonation() {
  const [admin, user] = [await app.signInAdmin(), await app.addUser()];
  const { body } = await admin.post(`/admin/impersonate/${user.id}`, {});
  return { admin, user, token: body.accessToken as string };
}

const addAdmin = () => app.addUser({ role: "admin" });
type Holders = Record<string, () => Promise<string | undefined>>;
const unauthenticated: Holders = {
  "an anonymous caller": async () => undefined,
  "the holder of an MFA token": async () =>
    app.mfaTokenFor((await app.setUpFactor(await addAdmin())).user),
  "the holder of a refresh token": async () => (await app.signInAdmin()).refreshToken,
  "an administrator impersonated before the promotion": async () => {
    const { admin, user, token } = await impersonation();
    await app.changeRole(admin, user.id, "admin");
    return token;
  },
  "the holder of an expired token": async () => {
    const { accessToken } = await app.signInAdmin();
    app.clock.advance("15m");
    return accessToken;
  },
  "a demoted administrator": async () => {
    const [admin, other] = [await app.signInAdmin(), await app.signInAdmin()];
    await app.changeRole(other, admin.user.id, "user");
    return admin.accessToken;
  },
  "the holder of an altered token": async () =>
    (await app.signInAdmin()).accessToken.replace(/.$/, (last) => (last === "A" ? "Q" : "A")),
};
const forbidden: Holders = {
  "a user": async () => (await app.signIn()).accessToken,
  "an impersonated user": async () => (await impersonation()).token,
  "an administrator whose role was removed in the database": async () => {
    const admin = await app.signInAdmin();
    expect((await admin.get("/admin/users?limit=1")).status).toBe(200);
    await app.sql("update users set role = 'user' where id = ?", [admin.user.id]);
    return admin.accessToken;
  },
};
const refusedBy = (status: number, code: Code, holders: Holders) =>
  Object.entries(holders).map(([who, token]) => ({ who, token, status, code }));

async function askRest({ name, verb, path }: Route, id: string, token: string | undefined) {
  const usual = verb === "PUT" ? PROMOTION : verb === "POST" ? {} : undefined;
  const body = BODIES[name] ?? usual;
  const answer = await app
    .httpClient()
    .send(verb, path.replace(/\{\w+\}/, id), body, bearer(token));
  return { status: answer.status, code: answer.body.code, message: answer.body.message };
}

async function askGrpc({ name, service, localName }: Route, id: string, token: string | undefined) {
  const client = app.grpc(service) as unknown as Record<
    string,
    (req: unknown, options: unknown) => Promise<unknown>
  >;
  const more = localName === "updateUser" ? PROMOTION : (GRPC_BODIES[name] ?? BODIES[name]);
  const request = { id, userId: id, ...more };
  const answer = client[localName]?.(request, { headers: bearer(token) });
  return answer?.then(
    () => ({ code: undefined, message: "it succeeded" }),
    ({ code, rawMessage }: ConnectError) => ({ code, message: rawMessage }),
  );
}

/** The routes, with a new minute after every few of them: they share limits. */
function* eachRoute() {
  for (const [index, route] of adminRoutes.entries()) {
    if (index % 10 === 9) app.clock.advance("61s");
    yield route;
  }
}

describe.each([
  ...refusedBy(401, Code.Unauthenticated, unauthenticated),
  ...refusedBy(403, Code.PermissionDenied, forbidden),
])("Administrator routes as $who", ({ token, status, code }) => {
  test("are refused over REST and gRPC, whether or not the object exists", async () => {
    const held = await token();
    for (const route of eachRoute()) {
      const rest = await askRest(route, ids.existing, held);
      const grpc = await askGrpc(route, ids.existing, held);
      expect(rest.status, route.name).toBe(status);
      expect(grpc?.code, route.name).toBe(code);
      if (!route.path.includes("{")) continue; // it names no object
      expect(await askRest(route, ids.absent, held)).toEqual(rest);
      expect(await askGrpc(route, ids.absent, held)).toEqual(grpc);
    }
    const [row] = await app.sql("select email, role, deletion_at from users where id = ?", [
      target.id,
    ]);
    expect(row).toEqual({ email: target.email, role: "user", deletion_at: null });
  });
});

/** The answer to an administrator who names an object that does not exist. */
function outcomeOf({ name, path }: Route) {
  if (name === "InviteUser") return { status: 409, code: Code.AlreadyExists };
  if (path.includes("{")) return { status: 404, code: Code.NotFound };
  return { status: name === "CreateWebhook" ? 201 : 200, code: undefined };
}

test("Administrator routes as an administrator: are open; unknown objects are 404 and malformed ids 400, over REST and gRPC", async () => {
  const { accessToken } = await app.signInAdmin();
  const [bystander, absent] = [await app.addUser(), uuid()];
  for (const route of eachRoute()) {
    const named = route.path.includes("{");
    const [rest, grpc] = [
      await askRest(route, absent, accessToken),
      await askGrpc(route, absent, accessToken),
    ];
    const { status, code } = outcomeOf(route);
    expect(rest.status, route.name).toBe(status);
    expect(grpc?.code).toBe(code);
    if (!named) continue;
    expect((await askRest(route, "not-an-id", accessToken)).status).toBe(400);
    expect((await askGrpc(route, "not-an-id", accessToken))?.code).toBe(Code.InvalidArgument);
    if (!NOT_FOR_BYSTANDER.includes(route.name))
      expect((await askRest(route, bystander.id, accessToken)).status).toBe(
        CONFLICTING.includes(route.name) ? 409 : 200,
      );
  }
});

test("Administrator routes as a user: the audit log records the caller, the target and the reason of each refusal", async () => {
  const { user, accessToken } = await app.signIn();
  for (const route of adminRoutes) await askRest(route, ids.existing, accessToken);
  const denied = await app.denialsOf(user.id);
  for (const each of denied)
    expect(each).toMatchObject({ outcome: "failure", reason: "FORBIDDEN" });
  expect(denied.map(({ rpc }) => rpc).sort()).toEqual(adminRoutes.map(({ name }) => name).sort());
  const aimed = adminRoutes.filter(
    ({ path }) => path.includes("{") && !/email-logs|api-keys\/{|budgets|webhook/.test(path),
  );
  expect(denied.filter(({ user_id }) => user_id === target.id)).toHaveLength(aimed.length);
  const [retry] = denied.filter(({ rpc }) => rpc === "RetryEmail");
  expect(retry).toMatchObject({ user_id: null, emailId: target.id });
});
