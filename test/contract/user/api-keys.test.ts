import { Code } from "@connectrpc/connect";
import { test as base, describe, expect } from "vitest";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { NEW_PASSWORD, PASSWORD, WRONG_PASSWORD } from "../../support/accounts.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { createKey, keyStatus } from "../../support/api-keys.ts";
import { startSuiteApp, testApp } from "../../support/app.ts";
import { commitMeanwhile } from "../../support/database/transaction.ts";
import { bearer } from "../../support/http/client.ts";
import { invalid, refusal, TEXT, TIME } from "../../support/http/responses.ts";
import { errorOf } from "../../support/http/stub-services.ts";
import { statusesOf } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const test = base
  .extend("mine", () => app.signIn())
  .extend("created", ({ mine }) => createKey(mine));

const DAY_MS = 86_400_000;
const inDays = (days: number) => new Date(app.clock.now().getTime() + days * DAY_MS).toISOString();

describe("POST /user/api-keys", () => {
  test("returns the key once, and stores only its digest", async ({ mine }) => {
    const { status, body } = await mine.post("/user/api-keys", { name: " CI " });
    expect(status).toBe(200);
    expect(body).toEqual({
      key: expect.stringMatching(/^sk-gate-[0-9A-Za-z]{38}$/),
      apiKey: {
        id: TEXT,
        name: "CI",
        hint: `${body.key.slice(8, 12)}...${body.key.slice(36, 40)}`,
        models: [],
        createdAt: TIME,
        expiresAt: TIME,
      },
    });
    const [row] = await app.sql("select * from api_keys where id = ?", [body.apiKey.id]);
    expect(JSON.stringify(row)).not.toContain(body.key.slice(8, 20));
    expect((await mine.get("/user/api-keys")).body).toEqual([body.apiKey]);
  });

  test("creates keys that expire after API_KEY_MAX_AGE at the latest", async ({ mine }) => {
    const { apiKey } = (await mine.post("/user/api-keys", { name: "CI" })).body;
    expect(apiKey.expiresAt.slice(0, 10)).toBe(inDays(365).slice(0, 10));
    const create = (expiresAt: string) => mine.post("/user/api-keys", { name: "CI", expiresAt });
    expect((await create(inDays(30))).status).toBe(200);
    expect(await create(inDays(366))).toMatchObject(invalid("expiresAt"));
    expect(await create(inDays(-1))).toMatchObject(invalid("expiresAt"));
  });

  test("requires a recent sign-in or the password", async ({ mine }) => {
    app.clock.advance("16m");
    const again = await mine.browser.post("/auth/refresh");
    const create = (password?: string) =>
      mine.browser.post("/user/api-keys", { name: "CI", password }, again.body.accessToken);
    expect(await create()).toMatchObject(refusal(403, "REAUTHENTICATION_REQUIRED"));
    expect(await create(WRONG_PASSWORD)).toMatchObject(refusal(400, "INVALID_CURRENT_PASSWORD"));
    expect((await create(PASSWORD)).status).toBe(200);
  });

  test("rejects unknown models, names without a visible character, and impersonators", async ({
    mine,
  }) => {
    const create = (form: object) => mine.post("/user/api-keys", { name: "CI", ...form });
    expect(await create({ models: ["model-a-1", "provider-a/model-a-1"] })).toMatchObject({
      status: 200,
    });
    expect(await create({ models: ["model-a-1", "gpt-none"] })).toMatchObject(invalid("models[1]"));
    expect(await create({ name: " " })).toMatchObject(invalid("name"));
    const admin = await app.signInAdmin();
    const { body } = await admin.post(`/admin/impersonate/${mine.user.id}`, {});
    const answer = await app
      .httpClient()
      .post("/user/api-keys", { name: "CI", password: PASSWORD }, body.accessToken);
    expect(answer).toMatchObject(refusal(403, "IMPERSONATING"));
  });

  test("notifies the owner by e-mail, and records id, name and hint in the audit log", async ({
    mine,
    created,
  }) => {
    const { id, name, hint } = created.apiKey;
    const mail = await app.mail.emailTo(mine.user.email, /API key was created/);
    expect(mail.text).toContain(`“CI” (${hint})`);
    expect(mail.text).not.toContain(created.key.slice(8, 16));
    const [event] = await app.auditOf(mine.user.id, "user.api_key_created");
    expect(event).toMatchObject({ actor_id: mine.user.id, details: { id, name, hint } });
  });

  test("creates API_KEYS_PER_USER keys, however many requests are concurrent", async ({ mine }) => {
    const create = () => mine.post("/user/api-keys", { name: "CI" });
    expect(await statusesOf(40, create)).toEqual({ 200: 20, 409: 20 });
    const [{ id }] = (await mine.get("/user/api-keys")).body;
    await mine.delete(`/user/api-keys/${id}`);
    expect(await statusesOf(5, create)).toEqual({ 200: 1, 409: 4 });
  });

  test.runIf(app.mode !== "embedded")(
    "creates no key if the session ends first",
    async ({ mine }) => {
      const lock = "select 1 from users where id = $1 for no key update";
      const end = "update sessions set revoked_at = now() where user_id = $1";
      const ask = () => mine.post("/user/api-keys", { name: "CI" });
      const { id } = mine.user;
      const url = app.settings.DATABASE_URL as string;
      const answer = await commitMeanwhile(url, lock, [id], ask, [[end, [id]]]);
      expect(answer).toMatchObject(refusal(401, "UNAUTHENTICATED"));
      expect(await app.sql("select from api_keys where user_id = ?", [id])).toEqual([]);
    },
  );
});

describe("An API key", () => {
  test("calls models over REST and gRPC, with and without streaming, and lists models and usage", async ({
    mine,
    created: { key, apiKey },
  }) => {
    const client = app.httpClient();
    const request = conversationOf("case: plain");
    expect((await client.post("/ai/chat", request, key)).status).toBe(200);
    expect((await client.post("/ai/stream", request, key)).text).toMatch(/\[DONE\]\n\n$/);
    const options = { headers: bearer(key) };
    expect((await app.grpc(AIService).chat(request, options)).finishReason).toBe("stop");
    for await (const { chunk } of app.grpc(AIService).streamChat(request, options))
      expect(chunk).not.toBe("");
    expect((await client.get("/ai/providers", key)).body).toEqual(
      (await mine.get("/ai/providers")).body,
    );
    const usage = async () => (await client.get("/user/usage", key)).body;
    await expect.poll(usage).toMatchObject([{ userId: mine.user.id, calls: 4 }]);
    const byKey = await client.get("/user/usage?groupBy=key", key);
    expect(byKey.body).toMatchObject([{ calls: 4, apiKeyId: apiKey.id }]);
  });

  test("cannot call anything else: 403 KEY_NOT_ALLOWED on both ports", async ({
    created: { key },
  }) => {
    const client = app.httpClient();
    for (const path of ["/user/profile", "/user/api-keys", "/user/export", "/user/sessions"])
      expect(await client.get(path, key)).toMatchObject(refusal(403, "KEY_NOT_ALLOWED"));
    expect(
      await client.post("/user/api-keys", { name: "CI", password: PASSWORD }, key),
    ).toMatchObject(refusal(403, "KEY_NOT_ALLOWED"));
    const refused = await errorOf(app.grpc(UserService).getProfile({}, { headers: bearer(key) }));
    expect(refused.code).toBe(Code.PermissionDenied);
  });

  test("of an administrator cannot call administrator routes, and the audit log records the attempt", async () => {
    const admin = await app.signInAdmin();
    const { key } = await createKey(admin);
    expect(await app.httpClient().get("/admin/users", key)).toMatchObject(
      refusal(403, "KEY_NOT_ALLOWED"),
    );
    expect(await app.denialsOf(admin.user.id)).toMatchObject([
      { reason: "KEY_NOT_ALLOWED", rpc: "ListUsers" },
    ]);
  });

  test("that is restricted to models lists and calls only these", async ({ mine }) => {
    const { key } = await createKey(mine, { models: ["model-a-2", "provider-b/model-b-1"] });
    const client = app.httpClient();
    const { body } = await client.get("/ai/providers", key);
    expect(
      body.map(({ provider, defaultModel, models }: Record<string, unknown>) => [
        provider,
        defaultModel,
        (models as unknown[]).length,
      ]),
    ).toEqual([
      ["provider-a", "model-a-2", 1],
      ["provider-b", "model-b-1", 1],
    ]);
    const ask = (path: string, provider: string, model?: string) =>
      client.post(path, { ...conversationOf("case: plain", provider), model }, key);
    expect((await ask("/ai/chat", "provider-a")).body.model).toBe("model-a-2");
    for (const path of ["/ai/chat", "/ai/stream"]) {
      expect(await ask(path, "provider-a", "model-a-1")).toMatchObject(invalid("model"));
      expect(await ask(path, "provider-c")).toMatchObject(invalid("provider"));
    }
  });

  test("shows its last use in the list, within a minute", async ({ mine, created }) => {
    const client = app.httpClient();
    await client.get("/ai/providers", created.key);
    const used = await until("the last use", async () => {
      const [key] = (await mine.get("/user/api-keys")).body;
      return key.lastUsedAt && key;
    });
    expect(used).toMatchObject({ lastUsedAt: TIME, lastUsedIp: client.address });
  });

  test("counts towards the rate limit of its owner", async ({ mine, created: { key } }) => {
    const remaining = async (token: string) => {
      const { headers } = await app.httpClient().get("/ai/providers", token);
      return Number(headers.get("ratelimit-remaining"));
    };
    const [first, second] = [await remaining(mine.accessToken), await remaining(key)];
    expect(second).toBe(first - 1);
  });

  test("is refused once it has expired", async ({ mine }) => {
    const { key } = await createKey(mine, { expiresAt: inDays(1) });
    expect(await keyStatus(app, key)).toBe(200);
    app.clock.advance("1d");
    expect(await keyStatus(app, key)).toBe(401);
    const again = await app.signIn(mine.user);
    expect((await again.get("/user/api-keys")).body).toEqual([]);
  });
});

describe("DELETE /user/api-keys/:id", () => {
  test("revokes a key immediately, and returns 404 for revoked keys and those of other users", async ({
    mine,
    created: { key, apiKey },
  }) => {
    const other = await app.signIn();
    expect(await keyStatus(app, key)).toBe(200);
    const path = `/user/api-keys/${apiKey.id}`;
    expect(await other.delete(path)).toMatchObject(refusal(404, "NOT_FOUND"));
    expect((await mine.delete(path)).status).toBe(200);
    expect(await keyStatus(app, key)).toBe(401);
    expect(await mine.delete(path)).toMatchObject(refusal(404, "NOT_FOUND"));
    expect(await mine.delete("/user/api-keys/x")).toMatchObject(invalid("id"));
    expect((await mine.get("/user/api-keys")).body).toEqual([]);
  });

  test("ends the open streams of the key within two seconds", async ({
    mine,
    created: { key, apiKey },
  }) => {
    const request = conversationOf(`case: silent-midway ${crypto.randomUUID()}`);
    const stream = app.httpClient().post("/ai/stream", request, key);
    await until("the call to be recorded", async () => {
      const rows = await app.sql("select from ai_usage where api_key_id = ?", [apiKey.id]);
      return rows.length > 0;
    });
    const revokedAt = performance.now();
    await mine.delete(`/user/api-keys/${apiKey.id}`);
    expect((await stream).text).toContain('"code":"UNAUTHENTICATED"');
    expect(performance.now() - revokedAt).toBeLessThan(2_000);
  });
});

describe("API keys", () => {
  test("survive a password change, whose response says how many there are", async ({
    mine,
    created: { key },
  }) => {
    const change = { currentPassword: PASSWORD, newPassword: NEW_PASSWORD };
    const { body } = await mine.post("/user/change-password", change);
    expect(body).toEqual({ message: TEXT, activeApiKeys: 1 });
    expect(await keyStatus(app, key)).toBe(200);
  });

  test("end with a password reset, whose e-mail names them", async ({
    mine: { user },
    created: { key, apiKey },
  }) => {
    await app.resetPassword(await app.resetTokenFor(user.email));
    expect(await keyStatus(app, key)).toBe(401);
    const mail = await app.mail.emailTo(user.email, /was reset/);
    expect(mail.text).toContain(`“CI” (${apiKey.hint})`);
    const [event] = await app.auditOf(user.id, "user.api_key_revoked");
    expect(event?.details).toEqual({ id: apiKey.id, name: "CI", hint: apiKey.hint });
  });

  test("are refused while the deletion of the account is pending, and work again after its cancellation", async ({
    mine,
    created: { key },
  }) => {
    await mine.post("/user/delete-account", {});
    expect(await keyStatus(app, key)).toBe(401);
    await app.signIn(mine.user);
    expect(await keyStatus(app, key)).toBe(200);
  });

  test("are deleted with the account, and their calls keep no trace of them", async ({
    mine,
    created: { key, apiKey },
  }) => {
    await app.httpClient().post("/ai/chat", conversationOf("case: plain"), key);
    const admin = await app.signInAdmin();
    await admin.delete(`/admin/users/${mine.user.id}`);
    expect(await keyStatus(app, key)).toBe(401);
    for (const [table, column] of [
      ["api_keys", "id"],
      ["ai_usage", "api_key_id"],
    ])
      expect(await app.sql(`select from ${table} where ${column} = ?`, [apiKey.id])).toEqual([]);
  });

  test("are in the export of their owner, without their digest", async ({ mine, created }) => {
    const { body } = await mine.get("/user/export");
    const { id, name, hint } = created.apiKey;
    expect(body.apiKeys).toEqual([{ id, name, hint, createdAt: TIME, expiresAt: TIME }]);
  });
});

describe("REQUIRE_VERIFIED_EMAIL=true", async () => {
  const strict = await startSuiteApp({ env: { REQUIRE_VERIFIED_EMAIL: "true" } });

  test("POST /user/api-keys: is 403 once the address is unverified", async () => {
    const account = await strict.signIn(await strict.addVerifiedUser());
    const create = () => account.post("/user/api-keys", { name: "CI" });
    expect((await create()).status).toBe(200);
    await strict.sql("update users set email_verified_at = null where id = ?", [account.user.id]);
    expect(await create()).toMatchObject(refusal(403, "EMAIL_NOT_VERIFIED"));
  });
});

describe("API_KEY_MAX_AGE=0", async () => {
  const lasting = await startSuiteApp({ env: { API_KEY_MAX_AGE: "0" } });

  test("POST /user/api-keys: creates keys that do not expire", async () => {
    const { apiKey } = await createKey(await lasting.signIn());
    expect(apiKey).not.toHaveProperty("expiresAt");
  });
});
