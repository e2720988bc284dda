import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { GatehouseError, type StreamChatRequest } from "../../../client/src/index.ts";
import { newAccount } from "../../support/accounts.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { testApp } from "../../support/app.ts";
import { clientAt } from "./clients.ts";

const app = await testApp();
const errorOf = (call: Promise<unknown>) =>
  call.then(() => undefined).catch((thrown: GatehouseError) => thrown);

test("Client: has every route of GET /openapi.json, and no others", async () => {
  const { paths } = (await (await fetch(`${app.url}/openapi.json`)).json()) as {
    paths: Record<string, object>;
  };
  const own = Object.entries(paths).filter(([path]) => !path.startsWith("/v1/")); // for the clients of OpenAI
  const described = own.flatMap(([path, methods]) =>
    Object.keys(methods).map(
      (method) => `${method.toUpperCase()} ${path.replace(/\{\w+\}/, "{}")}`,
    ),
  );
  const client = clientAt(app.url);
  const id = randomUUID();
  const calls = Object.entries(client)
    .filter(([name]) => name !== "passkeys" && name !== "completions") // calls around the routes, and a foreign format
    .map(([, group]) => group)
    .filter((group) => typeof group === "object" && !Array.isArray(group))
    .flatMap((group) => Object.values(group as Record<string, (...given: unknown[]) => unknown>));
  for (const call of calls) {
    const takesId = String(call).includes("encodeURIComponent");
    const result = call(...(takesId ? [id] : []), {});
    try {
      if (Symbol.asyncIterator in (result as object))
        for await (const _ of result as AsyncIterable<string>);
      else await result;
    } catch (thrown) {
      expect(thrown).toBeInstanceOf(GatehouseError);
      expect([400, 401, 423, 429]).toContain((thrown as GatehouseError).status);
    }
  }
  const sent = client.sent.map(({ method, path }) => `${method} ${path.replace(id, "{}")}`);
  expect(new Set(sent)).toEqual(new Set(described));
});

test("Client: reads the health status, registers, signs in, edits the profile, chats and signs out", async () => {
  const client = clientAt(app.url);
  expect(await client.health.getHealth()).toMatchObject({ status: "ok", checks: { database: {} } });
  const account = newAccount();
  const { userId } = await client.auth.register(account);
  expect((await client.auth.login(account)).user).toMatchObject({ id: userId, role: "user" });
  expect((await client.user.updateProfile({ name: "Bea Example" })).user.name).toBe("Bea Example");
  expect(await client.user.getProfile()).toMatchObject({
    id: userId,
    name: "Bea Example",
    mfaEnabled: false,
  });
  const request = conversationOf("Hello.") as StreamChatRequest;
  expect((await client.ai.chat(request)).model).toBe("model-a-1");
  const [session] = await client.user.listSessions();
  expect(session).toMatchObject({ current: true });
  await client.auth.logout();
  expect(client.accessToken).toBeUndefined();
  await expect(client.user.getProfile()).rejects.toMatchObject({
    code: "UNAUTHENTICATED",
    status: 401,
  });
});

test("Client: administrators list with filters, read the next page and act as a user", async () => {
  const client = clientAt(app.url);
  await client.auth.login((await app.addUser({ role: "admin" })).credentials);
  const name = `Zoë & Co ${randomUUID()}`;
  const [first, second] = [await app.addUser({ name }), await app.addUser({ name })];
  const page = await client.admin.listUsers({ search: name, limit: 1, role: undefined });
  expect(page.items.map(({ id }) => id)).toEqual([second.id]);
  const next = await client.admin.listUsers({ search: name, limit: 1, cursor: page.nextCursor });
  expect(next.items.map(({ id }) => id)).toEqual([first.id]);
  const { accessToken } = await client.admin.impersonate(first.id, { reason: "A question." });
  const asUser = client.withAccessToken(accessToken);
  expect((await asUser.user.getProfile()).id).toBe(first.id);
  expect((await client.user.getProfile()).role).toBe("admin");
  await asUser.auth.logout();
  await expect(asUser.user.getProfile()).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
  expect((await client.user.getProfile()).role).toBe("admin");
  expect(client.refreshes()).toBe(0);
});

test("Client: an invalid request throws its violations, status and request id", async () => {
  const client = clientAt(app.url);
  const error = await errorOf(
    client.auth.register({ email: "ann", password: "short", name: "", acceptTerms: true }),
  );
  expect(error).toBeInstanceOf(GatehouseError);
  expect(error).toMatchObject({ code: "VALIDATION_FAILED", status: 400, retryAfter: undefined });
  expect(error?.violations.map(({ field }) => field)).toEqual(
    expect.arrayContaining(["email", "password", "name"]),
  );
  expect(error?.requestId).toMatch(/^[\w-]{8,}/);
});

test("Client: a locked account throws the seconds until a retry", async () => {
  const client = clientAt(app.url);
  const user = await app.addUser();
  await app.lock(user.email);
  const error = await errorOf(client.auth.login(user.credentials));
  expect(error?.status).toBe(423);
  expect(error?.retryAfter).toBeGreaterThan(60);
});

test.each([
  {
    what: "a proxy's page",
    fetch: async () => new Response("<h1>Bad gateway</h1>", { status: 502 }),
    code: "UNEXPECTED_RESPONSE",
    status: 502,
  },
  {
    what: "a page instead of JSON",
    fetch: async () => new Response("<h1>Hello</h1>"),
    code: "UNEXPECTED_RESPONSE",
    status: 200,
  },
  {
    what: "no connection",
    fetch: () => Promise.reject(new TypeError("fetch failed")),
    code: "NETWORK_ERROR",
    status: 0,
  },
])("Client: $what throws its own code", async ({ fetch, code, status }) => {
  expect(await errorOf(clientAt(app.url, { fetch }).user.getProfile())).toMatchObject({
    code,
    status,
  });
});

test("Client: an abort throws the reason of its signal", async () => {
  const signal = AbortSignal.abort("no longer needed");
  await expect(clientAt(app.url).health.getHealth({ signal })).rejects.toBe("no longer needed");
  const client = clientAt(app.url, { lock: () => new Promise(() => {}) }); // another tab's refresh hangs
  await expect(client.user.getProfile({ signal: AbortSignal.timeout(100) })).rejects.toThrow(
    "timeout",
  );
});
