import { describe, expect, test } from "vitest";
import { newAccount } from "../../support/accounts.ts";
import { startSuiteApp, testApp } from "../../support/app.ts";
import { refusal } from "../../support/http/responses.ts";

const CLOSED = refusal(403, "SIGN_UP_CLOSED");

describe("Settings REGISTRATION=invited", async () => {
  const app = await startSuiteApp({ env: { REGISTRATION: "invited" } });

  test("POST /auth/register: is closed, and GET /auth/sign-in-methods says so", async () => {
    expect(await app.httpClient().post("/auth/register", newAccount())).toMatchObject(CLOSED);
    const { body } = await app.httpClient().get("/auth/sign-in-methods");
    expect(body).toMatchObject({ signUp: false });
  });
});

describe("Settings SIGN_UP_DOMAINS", async () => {
  const app = await startSuiteApp({ env: { SIGN_UP_DOMAINS: "Example.com, bücher.example" } });
  const register = async (email: string) =>
    (await app.httpClient().post("/auth/register", newAccount({ email }))).status;

  test("POST /auth/register: accepts only addresses of these domains, in any spelling", async () => {
    expect(await register("ann@example.com")).toBe(201);
    expect(await register("bea@EXAMPLE.COM")).toBe(201);
    expect(await register("ann@xn--bcher-kva.example")).toBe(201);
    expect(await register("bea@bücher.example")).toBe(201);
    for (const domain of ["sub.example.com", "example.com.evil.example", "notexample.com"])
      expect(await register(`ann@${domain}`)).toBe(403);
  });
});

test("GET /auth/sign-in-methods: lists what a sign-in page can offer", async () => {
  const app = await testApp();
  const { status, body } = await app.httpClient().get("/auth/sign-in-methods");
  expect(status).toBe(200);
  const all = process.env.TEST_FEATURES !== undefined;
  expect(body).toMatchObject({ passkey: true, emailCode: all, signUp: true });
  expect(body.providers.length > 0).toBe(all);
});
