import { Code } from "@connectrpc/connect";
import { v7 as uuid } from "uuid";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { PASSWORD } from "../../support/accounts.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { createKey, createService, keyStatus } from "../../support/api-keys.ts";
import { testApp } from "../../support/app.ts";
import { SECRET } from "../../support/http/gateway.ts";
import { invalid, refusal, TEXT, TIME } from "../../support/http/responses.ts";
import { errorOf } from "../../support/http/stub-services.ts";

const app = await testApp();
const inDays = (days: number) =>
  new Date(app.clock.now().getTime() + days * 86_400_000).toISOString();

type Listed = { id: string };
const idsIn = ({ body }: { body: { items: Listed[] } }) => body.items.map(({ id }) => id);

describe("GET /admin/api-keys", () => {
  test("lists the keys of a user with owner, creator and state, newest first", async () => {
    const [admin, account] = await Promise.all([app.signInAdmin(), app.signIn()]);
    const { id: userId } = account.user;
    const [first, second] = [await createKey(account), await createKey(account)];
    await account.delete(`/user/api-keys/${first.apiKey.id}`);
    const { body } = await admin.get(`/admin/api-keys?userId=${userId}`);
    const user = { id: userId, name: account.user.name, email: account.user.email };
    const common = { name: "CI", models: [], createdAt: TIME, expiresAt: TIME, userId, user };
    expect(body).toEqual({
      total: 2,
      items: [
        { ...common, id: second.apiKey.id, hint: second.apiKey.hint, createdBy: userId },
        {
          ...common,
          id: first.apiKey.id,
          hint: first.apiKey.hint,
          createdBy: userId,
          revokedAt: TIME,
        },
      ],
    });
  });

  test("filters by state, and by a part of name or hint in any case", async () => {
    const [admin, account] = await Promise.all([app.signInAdmin(), app.signIn()]);
    const { id: userId } = account.user;
    const name = `Nightly ${uuid()}`;
    const active = (await createKey(account, { name })).apiKey;
    const expired = (await createKey(account)).apiKey;
    const revoked = (await createKey(account)).apiKey;
    await admin.put(`/admin/api-keys/${expired.id}`, { expiresAt: inDays(-1) });
    await admin.put(`/admin/api-keys/${revoked.id}`, { revoked: true });
    const list = async (query: string) => idsIn(await admin.get(`/admin/api-keys?${query}`));
    expect(await list(`userId=${userId}&state=active`)).toEqual([active.id]);
    expect(await list(`userId=${userId}&state=expired`)).toEqual([expired.id]);
    expect(await list(`userId=${userId}&state=revoked`)).toEqual([revoked.id]);
    expect(await list(`search=${encodeURIComponent(name.toUpperCase())}`)).toEqual([active.id]);
    const typed = name.replaceAll("-", "⁓").replace(/\d/g, (digit) => `٠١٢٣٤٥٦٧٨٩`[+digit] ?? "");
    expect(await list(`search=${encodeURIComponent(typed)}`)).toEqual([active.id]);
    expect(await list(`search=${expired.hint.toLowerCase()}`)).toContain(expired.id);
    expect(await admin.get("/admin/api-keys?state=gone")).toMatchObject(invalid("state"));
  });

  test("returns keys page by page", async () => {
    const [admin, account] = await Promise.all([app.signInAdmin(), app.signIn()]);
    const keys = [];
    for (let i = 0; i < 5; i++) keys.unshift((await createKey(account)).apiKey.id);
    const path = `/admin/api-keys?limit=2&userId=${account.user.id}`;
    const found = [];
    for (let cursor = ""; ; ) {
      const page = await admin.get(`${path}${cursor && `&cursor=${cursor}`}`);
      found.push(...idsIn(page));
      if (!page.body.nextCursor) break;
      cursor = page.body.nextCursor;
    }
    expect(found).toEqual(keys);
  });
});

describe("PUT /admin/api-keys/:id", () => {
  test("revokes a key of any user immediately and permanently", async () => {
    const [admin, account] = await Promise.all([app.signInAdmin(), app.signIn()]);
    const { key, apiKey } = await createKey(account);
    expect(await keyStatus(app, key)).toBe(200);
    const update = (body: object) => admin.put(`/admin/api-keys/${apiKey.id}`, body);
    expect(await update({ revoked: true })).toMatchObject({
      status: 200,
      body: { message: TEXT, apiKey: { id: apiKey.id, revokedAt: TIME } },
    });
    expect(await keyStatus(app, key)).toBe(401);
    expect(await update({ revoked: true })).toMatchObject(refusal(409, "CONFLICT"));
    expect(await update({ revoked: false })).toMatchObject(invalid("revoked"));
    const [event] = await app.auditOf(account.user.id, "admin.api_key_updated");
    const { id, name, hint } = apiKey;
    expect(event).toMatchObject({
      actor_id: admin.user.id,
      details: { id, name, hint, fields: ["revoked"] },
    });
  });

  test("restricts models and requests from the next request on", async () => {
    const [admin, account] = await Promise.all([app.signInAdmin(), app.signIn()]);
    const { key, apiKey } = await createKey(account);
    const ask = (model: string) =>
      app.httpClient().post("/ai/chat", { ...conversationOf("case: plain"), model }, key);
    expect((await ask("model-a-1")).status).toBe(200);
    const update = (body: object) => admin.put(`/admin/api-keys/${apiKey.id}`, body);
    expect(await update({ models: ["model-a-2"], requestsPerMinute: 5 })).toMatchObject({
      body: { apiKey: { models: ["model-a-2"], requestsPerMinute: 5 } },
    });
    expect(await ask("model-a-1")).toMatchObject(invalid("model"));
    expect((await ask("model-a-2")).status).toBe(200);
    expect(await update({ models: ["none"] })).toMatchObject(invalid("models[0]"));
    expect(await update({ requestsPerMinute: 0 })).toMatchObject(invalid("requestsPerMinute"));
    await expect
      .poll(async () => (await ask("model-a-2")).headers.get("ratelimit-limit"))
      .toBe("5"); // once the port has looked it up again
    await expect.poll(async () => (await ask("model-a-2")).status).toBe(429);
    expect((await account.get("/ai/providers")).status).toBe(200);
  });

  test("moves the expiry to an earlier time only", async () => {
    const [admin, account] = await Promise.all([app.signInAdmin(), app.signIn()]);
    const { apiKey } = await createKey(account, { expiresAt: inDays(10) });
    const update = (expiresAt: string) => admin.put(`/admin/api-keys/${apiKey.id}`, { expiresAt });
    expect(await update(inDays(11))).toMatchObject(invalid("expiresAt"));
    const earlier = inDays(2);
    expect(new Date((await update(earlier)).body.apiKey.expiresAt).toISOString()).toBe(earlier);
    expect(await update(inDays(3))).toMatchObject(invalid("expiresAt"));
  });
});

describe("Service accounts", () => {
  test("POST /admin/service-accounts: creates a service account, which the list of users shows as one", async () => {
    const admin = await app.signInAdmin();
    const { status, body } = await admin.post("/admin/service-accounts", { name: "Report" });
    expect(status).toBe(200);
    const { id } = body.user;
    expect(body.user).toEqual({
      id,
      email: `${id}@service.invalid`,
      name: "Report",
      role: "user",
      emailVerified: false,
      mfaEnabled: false,
      createdAt: TIME,
      updatedAt: TIME,
      locked: false,
      serviceAccount: true,
    });
    const list = async (query: string) => idsIn(await admin.get(`/admin/users?limit=5&${query}`));
    expect(await list("serviceAccount=true")).toContain(id);
    expect(await list("serviceAccount=false")).not.toContain(id);
    expect(await admin.post("/admin/service-accounts", {})).toMatchObject(invalid("name"));
  });

  test("have their own keys, whose calls count for the account and for each key", async () => {
    const { admin, id, key, apiKey } = await createService(app);
    const { headers } = await app.httpClient().get("/ai/providers", key);
    expect(headers.get("ratelimit-limit")).toBe("600");
    const other = await admin.post(`/admin/users/${id}/api-keys`, { name: "Other" });
    const second = await app.httpClient().get("/ai/providers", other.body.key);
    expect(second.headers.get("ratelimit-remaining")).toBe("599");
    expect(
      (await app.httpClient().post("/ai/chat", conversationOf("case: plain"), key)).status,
    ).toBe(200);
    const usage = async () => (await admin.get(`/admin/usage?userId=${id}&groupBy=key`)).body;
    await expect.poll(usage).toMatchObject([{ userId: id, apiKeyId: apiKey.id, calls: 1 }]);
    const [event] = await app.auditOf(id, "user.api_key_created");
    expect(event).toMatchObject({ actor_id: admin.user.id });
  });

  test("POST /admin/users/:id/api-keys: is 409 for a person, and requires a recent sign-in or the password", async () => {
    const { admin, id } = await createService(app);
    const person = await app.addUser();
    const path = (user: string) => `/admin/users/${user}/api-keys`;
    expect(await admin.post(path(person.id), { name: "CI" })).toMatchObject(
      refusal(409, "CONFLICT"),
    );
    expect(await admin.post(path(uuid()), { name: "CI" })).toMatchObject(refusal(404, "NOT_FOUND"));
    app.clock.advance("16m");
    const { body } = await admin.browser.post("/auth/refresh");
    const create = (password?: string) =>
      admin.browser.post(path(id), { name: "CI", password }, body.accessToken);
    expect(await create()).toMatchObject(refusal(403, "REAUTHENTICATION_REQUIRED"));
    expect((await create(PASSWORD)).status).toBe(200);
  });

  test("cannot sign in, reset a password, be impersonated or get an e-mail, and only their name can be changed", async () => {
    const { admin, id, email } = await createService(app);
    for (const password of ["-", PASSWORD])
      expect(await app.login(email, password)).toMatchObject(refusal(401, "INVALID_CREDENTIALS"));
    expect((await app.httpClient().post("/auth/forgot-password", { email })).status).toBe(200);
    expect((await app.httpClient().post("/auth/resend-verification", { email })).status).toBe(200);
    expect(await app.sql("select from emails where user_id = ?", [id])).toEqual([]);
    expect(await admin.post(`/admin/impersonate/${id}`, {})).toMatchObject(
      refusal(409, "CONFLICT"),
    );
    const update = (body: object) => admin.put(`/admin/users/${id}`, body);
    expect((await update({ name: "Weekly report" })).body.user.name).toBe("Weekly report");
    for (const change of [
      { role: "admin", password: PASSWORD },
      { email: "someone@example.com" },
      { emailVerified: true },
    ])
      expect(await update(change)).toMatchObject(refusal(409, "CONFLICT"));
  });

  test("outlive the administrator who created them, and are deleted when they are erased", async () => {
    const { admin, id, key } = await createService(app);
    const other = await app.signInAdmin();
    await other.delete(`/admin/users/${admin.user.id}`);
    expect(await keyStatus(app, key)).toBe(200);
    expect((await other.delete(`/admin/users/${id}`)).status).toBe(200);
    expect(await keyStatus(app, key)).toBe(401);
  });
});

test("FindApiKey: is for gateways only", async () => {
  const { key } = await createKey(await app.signIn());
  const { digestOfKey } = await import("../../../services/platform/gate/api-key.ts");
  const digest = Buffer.from(digestOfKey(key) ?? "", "hex");
  const { findApiKey } = app.grpc(AuthService);
  for (const headers of [{}, { "x-gatehouse-secret": "guessed-secret-00" }])
    expect((await errorOf(findApiKey({ digest }, { headers }))).code).toBe(Code.PermissionDenied);
  const headers = { "x-gatehouse-secret": SECRET };
  expect((await findApiKey({ digest }, { headers })).apiKey?.id).toMatch(/^[0-9a-f-]{36}$/);
  expect((await errorOf(findApiKey({ digest: Buffer.alloc(31) }, { headers }))).code).toBe(
    Code.InvalidArgument,
  );
  expect(
    (await app.httpClient().post("/gatehouse.account.v1.AuthService/FindApiKey", {})).status,
  ).toBe(404);
});
