import { expect, test } from "vitest";
import { GatehouseError } from "../../../client/src/index.ts";
import { testApp } from "../../support/app.ts";
import { clientAt } from "../../support/client.ts";

const app = await testApp();
const errorOf = (call: Promise<unknown>) => call.then(() => undefined).catch((thrown: GatehouseError) => thrown);

test("Client: an invalid request throws its violations, status and request id", async () => {
  const client = clientAt(app.url);
  const error = await errorOf(client.auth.register({ email: "ann", password: "short", name: "", acceptTerms: true }));
  expect(error).toBeInstanceOf(GatehouseError);
  expect(error).toMatchObject({ code: "VALIDATION_FAILED", status: 400, retryAfter: undefined });
  expect(error?.violations.map(({ field }) => field)).toEqual(expect.arrayContaining(["email", "password", "name"]));
  expect(error?.requestId).toMatch(/^[\w-]{8,}/);
});

test("Client: a locked account throws the seconds until a retry", async () => {
  const client = clientAt(app.url);
  const user = await app.addUser();
  let error: GatehouseError | undefined;
  for (let i = 0; i < 6; i++)
    error = await errorOf(client.auth.login({ ...user.credentials, password: "Wrong-1-horse" }));
  expect([423, 429]).toContain(error?.status);
  expect(error?.retryAfter).toBeGreaterThan(60);
});

test.each([
  ["a proxy's page", async () => new Response("<h1>Bad gateway</h1>", { status: 502 }), "UNEXPECTED_RESPONSE", 502],
  ["a page instead of JSON", async () => new Response("<h1>Hello</h1>"), "UNEXPECTED_RESPONSE", 200],
  ["no connection", () => Promise.reject(new TypeError("fetch failed")), "NETWORK_ERROR", 0],
])("Client: %s throws its own code", async (_what, fetch, code, status) => {
  expect(await errorOf(clientAt(app.url, { fetch }).user.getProfile())).toMatchObject({ code, status });
});

test("Client: an abort throws the reason of its signal", async () => {
  const signal = AbortSignal.abort("no longer needed");
  await expect(clientAt(app.url).health.getHealth({ signal })).rejects.toBe("no longer needed");
  const client = clientAt(app.url, { lock: () => new Promise(() => {}) }); // another tab's refresh hangs
  await expect(client.user.getProfile({ signal: AbortSignal.timeout(100) })).rejects.toThrow("timeout");
});
