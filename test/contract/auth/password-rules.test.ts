import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { fieldsIn, invalid } from "../../support/failures.ts";
import { newAccount, resetPassword, resetTokenFor } from "../../support/passwords.ts";

const app = await testApp();
const register = (changes: object) => app.httpClient().post("/auth/register", newAccount(changes));

test.each([
  ["address", (email: string) => [`  ${email}`, "Ann"]],
  ["name", () => ["ann exAmple-1", " Ann Example-1"]],
])("POST /auth/register: refuses the user's %s as password, with all other violations", async (_what, make) => {
  const email = `Ann1${randomUUID()}@example.com`;
  const [password = "", name] = make(email);
  const answer = await register({ email, password, name, acceptTerms: false });
  expect(answer.body.violations).toHaveLength(2);
  expect(fieldsIn(answer)).toEqual(["acceptTerms", "password"]);
});

test("POST /user/change-password, /auth/reset-password: refuse the user's address and name", async () => {
  const { user, post } = await app.signIn(await app.addVerifiedUser({ name: "Ann-Example-1" }));
  const change = { currentPassword: user.password, newPassword: "ann-EXAMPLE-1" };
  expect(await post("/user/change-password", change)).toMatchObject(invalid("newPassword"));
  const token = await resetTokenFor(app, user.email);
  expect(await resetPassword(app, token, "Ann-Example-1")).toMatchObject(invalid("password"));
  expect((await resetPassword(app, token)).status).toBe(200);
});

test("POST /auth/register: accepts a common password by default", async () => {
  expect((await register({ password: "P@ssw0rd" })).status).toBe(201);
});

test("POST /auth/register: trims the name before the checks, and requires a visible character", async () => {
  const { status, body } = await register({ name: "\n Ann\r\n\t" });
  expect(status).toBe(201);
  expect(await app.sql("select name from users where id = ?", [body.userId])).toEqual([{ name: "Ann" }]);
  for (const name of ["A\nnn", "\u0001Ann", "", "  ", "x".repeat(101)])
    expect(await register({ name })).toMatchObject(invalid("name"));
  expect((await register({ name: "\u200b\u3164\u2800" })).body.violations).toEqual([
    { field: "name", message: "must contain a visible character" },
  ]);
});
