import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";

const app = await testApp();
const account = () => ({ email: `${randomUUID()}@example.com`, password: "Correct-horse-1", acceptTerms: true });
const invalid = (...fields: string[]) => ({
  status: 400,
  body: { code: "VALIDATION_FAILED", violations: fields.map((field) => ({ field })) },
});

test.each([
  ["address", (email: string) => [`  ${email}`, "Ann"]],
  ["name", (_email: string) => ["ann exAmple-1", " Ann Example-1"]],
])("POST /auth/register: refuses the user's %s as password, with all other violations", async (_what, make) => {
  const email = `Ann1${randomUUID()}@example.com`;
  const [password = "", name] = make(email);
  const body = { email, password, name, acceptTerms: false };
  const answer = await app.httpClient().post("/auth/register", body);
  expect(answer.body.violations.map(({ field }: { field: string }) => field).sort()).toEqual([
    "acceptTerms",
    "password",
  ]);
});

test("POST /user/change-password, /auth/reset-password: refuse the user's address and name", async () => {
  const { user, browser, accessToken } = await app.signIn(await app.addVerifiedUser({ name: "Ann-Example-1" }));
  const change = (newPassword: string) =>
    browser.post("/user/change-password", { currentPassword: user.password, newPassword }, accessToken);
  expect(await change("ann-EXAMPLE-1")).toMatchObject(invalid("newPassword"));
  await app.httpClient().post("/auth/forgot-password", { email: user.email });
  const { token } = await app.mail.emailTo(user.email, /Reset/);
  const reset = (password: string) => app.httpClient().post("/auth/reset-password", { token, password });
  expect(await reset("Ann-Example-1")).toMatchObject(invalid("password"));
  expect((await reset("Brand-new-2")).status).toBe(200);
});

test("POST /auth/register: accepts a common password by default", async () => {
  const common = { ...account(), password: "P@ssw0rd", name: "Ann" };
  expect((await app.httpClient().post("/auth/register", common)).status).toBe(201);
});

test("POST /auth/register: trims the name before the checks, and requires a visible character", async () => {
  const register = (name: string) => app.httpClient().post("/auth/register", { ...account(), name });
  const { status, body } = await register("\n Ann\r\n\t");
  expect(status).toBe(201);
  const [row] = await app.sql("select name from users where id = ?", [body.userId ?? body.user?.id ?? body.id]);
  expect(row).toEqual({ name: "Ann" });
  for (const name of ["A\nnn", "\u0001Ann", "", "  ", "x".repeat(101)]) {
    expect(await register(name)).toMatchObject(invalid("name"));
  }
  expect((await register("\u200b\u3164\u2800")).body.violations).toEqual([
    { field: "name", message: "must contain a visible character" },
  ]);
});
