import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { GatehouseError } from "../../../client/src/index.ts";
import { testApp } from "../../support/app.ts";
import { clientAt } from "../../support/client.ts";

const app = await testApp();

test("Client: has every route of GET /openapi.json, and no other", async () => {
  const { paths } = (await (await fetch(`${app.url}/openapi.json`)).json()) as { paths: Record<string, object> };
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replace(/\{\w+\}/, "{}")}`),
  );
  const client = clientAt(app.url);
  const id = randomUUID();
  const calls = Object.values(client)
    .filter((group) => typeof group === "object" && !Array.isArray(group))
    .flatMap((group) => Object.values(group as Record<string, (...given: unknown[]) => unknown>));
  for (const call of calls) {
    const takesId = String(call).includes("encodeURIComponent");
    const result = call(...(takesId ? [id] : []), {});
    try {
      if (Symbol.asyncIterator in (result as object)) for await (const _ of result as AsyncIterable<string>);
      else await result;
    } catch (thrown) {
      expect(thrown).toBeInstanceOf(GatehouseError);
      expect([400, 401, 423, 429]).toContain((thrown as GatehouseError).status);
    }
  }
  const sent = client.sent.map(({ method, path }) => `${method} ${path.replace(id, "{}")}`);
  expect(new Set(sent)).toEqual(new Set(described));
});

test("Client: reads the health, registers, signs in, edits the profile, chats and signs out", async () => {
  const client = clientAt(app.url);
  expect(await client.health.getHealth()).toMatchObject({ status: "ok", checks: { database: {} } });
  const credentials = { email: `${randomUUID()}@example.com`, password: "Correct-horse-1" };
  const { userId } = await client.auth.register({ ...credentials, name: "Ann Example", acceptTerms: true });
  expect((await client.auth.login(credentials)).user).toMatchObject({ id: userId, role: "user" });
  expect((await client.user.updateProfile({ name: "Bea Example" })).user.name).toBe("Bea Example");
  expect(await client.user.getProfile()).toMatchObject({ id: userId, name: "Bea Example", mfaEnabled: false });
  const messages = [{ role: "user" as const, content: "Hello." }];
  expect((await client.ai.chat({ provider: "provider-a", messages })).model).toBe("model-a-1");
  const [session] = await client.user.listSessions();
  expect(session).toMatchObject({ current: true });
  await client.auth.logout();
  expect(client.accessToken).toBeUndefined();
  await expect(client.user.getProfile()).rejects.toMatchObject({ code: "UNAUTHENTICATED", status: 401 });
});

test("Client: administrators list with filters, read the next page and act in the name of a user", async () => {
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
