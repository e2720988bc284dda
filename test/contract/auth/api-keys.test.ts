import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { createApiKey } from "../../../services/platform/gate/api-key.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { createKey, createService, keyStatus } from "../../support/api-keys.ts";
import { startApp, testApp } from "../../support/app.ts";
import { bearer, postJson } from "../../support/http/client.ts";
import { refusal } from "../../support/http/responses.ts";
import { errorOf } from "../../support/http/stub-services.ts";
import { forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";
import { compareTimes, cycle, type Times } from "./compare-times.ts";

const app = await testApp();
/** A stream must end within this time after its key, on whichever process the key was revoked. */
const SOON_MS = 1_500;

test("Authorization: unknown, mistyped and revoked keys get the same 401", async () => {
  const account = await app.signIn();
  const { key, apiKey } = await createKey(account);
  await account.delete(`/user/api-keys/${apiKey.id}`);
  const mistyped = key.replace(/.$/, (last) => (last === "A" ? "B" : "A"));
  for (const wrong of [createApiKey().key, mistyped, key]) {
    const answer = await app.httpClient().get("/ai/providers", wrong);
    expect(answer).toMatchObject(refusal(401, "UNAUTHENTICATED"));
    expect(answer.body.message).toBe("The API key is invalid, expired or revoked.");
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    const refused = await errorOf(
      app.grpc(AIService).listProviders({}, { headers: bearer(wrong) }),
    );
    expect(refused.code).toBe(Code.Unauthenticated);
  }
});

test("Authorization: an unknown key is refused before the body is read", async () => {
  const answer = await app
    .httpClient()
    .post("/ai/chat", "x".repeat(3 * 1024 * 1024), createApiKey().key);
  expect(answer.status).toBe(401);
});

test("Authorization: at most 30 unknown keys a minute from one address get 401, the rest 429, and valid keys are accepted", async () => {
  const { key } = await createKey(await app.signIn());
  const client = app.httpClient();
  const send = async () => (await client.get("/ai/providers", createApiKey().key)).status;
  const statuses = [];
  for (let i = 0; i < 62; i++) statuses.push(await send());
  expect(statuses.filter((status) => status === 401).length).toBeLessThanOrEqual(30);
  expect(statuses.at(-1)).toBe(429);
  expect(await keyStatus(app, key)).toBe(200);
});

test("Authorization: an unknown key takes as long as a revoked one", async () => {
  const account = await app.signIn();
  const { key, apiKey } = await createKey(account);
  await account.delete(`/user/api-keys/${apiKey.id}`);
  const unknown = times(9, () => createApiKey().key);
  const ask = (each: string) => async () => expect(await keyStatus(app, each)).toBe(401);
  const isAlike = ({ one, apart }: Times) => apart < Math.max(3, one * 0.5);
  expect(await compareTimes(9, ask(key), cycle(unknown.map(ask)), isAlike)).toSatisfy(isAlike);
});

const STREAMS = [
  { path: "/ai/stream", more: {}, failure: "UNAUTHENTICATED" },
  {
    path: "/v1/chat/completions",
    more: { provider: undefined, stream: true },
    failure: "invalid_api_key",
  },
];

describe.runIf(app.mode !== "embedded").each(STREAMS)("POST $path", (streamed) => {
  test("a key that is revoked at one replica fails at its next call to the other, and its streams end there", async () => {
    const { DATABASE_URL, DATA_DIR } = app.settings;
    const replica = await forTest(startApp({ env: { DATABASE_URL, DATA_DIR } }));
    const account = await app.signIn();
    const [revoked, other] = [await createKey(account), await createKey(account)];
    /** Starts a stream at the other replica that sends some text and stays silent. */
    const listen = async (key: string) => {
      const question = conversationOf(`case: silent-midway ${crypto.randomUUID()}`);
      const request = { ...question, model: "model-a-1", ...streamed.more };
      const { body } = await postJson(replica.url + streamed.path, request, key);
      const stream = { text: "", isOver: false, rest: Promise.resolve() };
      stream.rest = (async () => {
        for await (const part of (body as ReadableStream).pipeThrough(new TextDecoderStream()))
          stream.text += part;
        stream.isOver = true;
      })();
      await until("the first text", () => stream.text.includes("Grüße"));
      return stream;
    };
    const [ends, goesOn] = await Promise.all([listen(revoked.key), listen(other.key)]);
    await account.delete(`/user/api-keys/${revoked.apiKey.id}`);
    const revokedAt = performance.now();
    expect(await keyStatus(replica, revoked.key)).toBe(401);
    await ends.rest;
    expect(performance.now() - revokedAt).toBeLessThan(SOON_MS);
    expect(ends.text).toMatch(new RegExp(`"${streamed.failure}".*\n\ndata: \\[DONE\\]\n\n$`));
    expect([goesOn.isOver, await keyStatus(replica, other.key)]).toEqual([false, 200]);
    await account.delete(`/user/api-keys/${other.apiKey.id}`);
    await goesOn.rest;
  });
});

test("API keys: no log line, error, metric, e-mail, audit event, row or export contains their text", async () => {
  const logged = app.logs.length;
  const account = await app.signIn();
  const [own, service] = [await createKey(account), await createService(app)];
  const client = app.httpClient();
  for (const { key } of [own, service]) {
    const broken = key.replace(/.$/, (last) => (last === "A" ? "B" : "A"));
    await client.get("/user/profile", key);
    await client.post("/ai/chat", { provider: key, messages: [] }, key);
    await client.post("/ai/chat", conversationOf("case: bad-key"), key);
    await client.get(`/ai/providers?key=${key}`, broken);
    await client.get(`/user/api-keys/${key}`, key);
    await errorOf(app.grpc(AIService).chat({ provider: key }, { headers: bearer(key) }));
  }
  await account.delete(`/user/api-keys/${own.apiKey.id}`);
  await client.get("/ai/providers", own.key);
  await until("the e-mail", () => app.mail.emailTo(account.user.email, /API key/));
  const exported = await account.get("/user/export");
  const answers = await Promise.all([
    client.get("/ai/providers", own.key),
    account.get("/user/api-keys"),
    service.admin.get("/admin/api-keys?limit=100"),
    service.admin.get(`/admin/audit-logs?limit=100&userId=${account.user.id}`),
  ]);
  const tables = ["api_keys", "audit_events", "emails", "ai_usage", "users", "sessions"];
  const rows = await Promise.all(
    tables.map((table) => app.sql(`select t::text as row from ${table} t`)),
  );
  const mails = await app.mail.emailsTo(account.user.email);
  const everything = [
    ...app.logs.slice(logged),
    exported.text,
    await app.metrics(),
    ...answers.map(({ text }) => text),
    ...answers.map(({ headers }) => JSON.stringify([...headers])),
    JSON.stringify(rows),
    ...mails.map(({ text }) => text),
  ].join("\n");
  for (const { key } of [own, service]) {
    // the hint shows four characters at either end
    expect(everything).not.toContain(key.slice(8, 16));
    expect(everything).not.toContain(key.slice(-10));
  }
});

test("API keys: the log identifies the key of a request by its id", async () => {
  const { key, apiKey } = await createKey(await app.signIn());
  const logged = app.logs.length;
  await app.httpClient().get("/ai/providers", key);
  const line = await until("the line of the request", () =>
    app.logs
      .slice(logged)
      .map((text) => JSON.parse(text))
      .find(({ route, keyId }) => route === "/ai/providers" && keyId === apiKey.id),
  );
  expect(line).toMatchObject({ status: 200, userId: expect.any(String) });
});
