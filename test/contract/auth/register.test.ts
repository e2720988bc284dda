import { randomInt, randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { newAccount } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { fieldsIn, invalid } from "../../support/http/responses.ts";
import { statusesOf, tally } from "../../support/tally.ts";

const app = await testApp();
const register = (account: object, httpClient = app.httpClient()) =>
  httpClient.post("/auth/register", account);

test("POST /auth/register: creates an account and mails the verification link in text and HTML", async () => {
  const wanted = newAccount({ name: "Sign in at evil.example" });
  const answer = await register(wanted);
  expect(answer).toMatchObject({ status: 201, body: { message: expect.any(String) } });
  expect(answer.body.userId).toMatch(
    /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  );
  const mail = await app.mail.emailTo(wanted.email);
  expect(mail.subject).toBe("Verify your e-mail address");
  expect(mail.link).toBe(`http://gatehouse.test/verify-email#token=${mail.token}`);
  expect(mail.text).toMatch(/^Hello,/);
  expect(`${mail.text}${mail.html}`).not.toContain("evil.example"); // the address may belong to another person
  expect(mail.html).toContain(mail.token);
  expect(mail.text).toContain("for 24 hours");
  expect(mail.from).toMatchObject({ name: "Gatehouse", address: "no-reply@localhost" });
});

test.each([
  ["Short1!", "8 to 128"],
  [`Aa1!${"x".repeat(125)}`, "8 to 128"],
  ["lowercase-1", "uppercase"],
  ["UPPERCASE-1", "lowercase"],
  ["No-digits-here", "digit"],
  ["NoSpecial123", "special"],
])("POST /auth/register: rejects the password %s", async (password, rule) => {
  const answer = await register(newAccount({ password }));
  expect(answer.status).toBe(400);
  expect(answer.body.violations).toEqual([
    { field: "password", message: expect.stringContaining(rule) },
  ]);
  expect(JSON.stringify(answer.body)).not.toContain(password);
});

test.each([false, "true", 1, null])(
  "POST /auth/register: acceptTerms must be true, not %j",
  async (acceptTerms) => {
    expect(await register(newAccount({ acceptTerms }))).toMatchObject(invalid("acceptTerms"));
  },
);

test("POST /auth/register: stores the given spelling of the address, trimmed", async () => {
  const name = randomUUID();
  expect((await register(newAccount({ email: `  ${name}.Ann@Bücher.example ` }))).status).toBe(201);
  const { body } = await app.login(`${name}.ann@bücher.example`);
  expect(body.user.email).toBe(`${name}.Ann@Bücher.example`);
});

test("POST /auth/register: concurrent requests create one account", async () => {
  const wanted = newAccount();
  expect(await statusesOf(12, () => register(wanted))).toEqual({ 201: 1, 409: 11 });
});

test("POST /auth/register: allows ten accounts in 15 minutes per IP address", async () => {
  const httpClient = app.httpClient();
  const answers = [];
  for (let i = 0; i < 11; i++) answers.push(await register(newAccount(), httpClient));
  expect(tally(answers, (a) => a.status)).toEqual({ 201: 10, 429: 1 });
  expect(answers[0]?.headers.get("ratelimit-remaining")).toBe("9");
  expect(answers[10]?.body).toMatchObject({
    statusCode: 429,
    error: "Too Many Requests",
    code: "RATE_LIMITED",
  });
  expect(answers[10]?.headers.get("ratelimit-remaining")).toBe("0");
  expect(Number(answers[10]?.headers.get("retry-after"))).toBeGreaterThan(890);
  app.clock.advance("15m");
  expect((await register(newAccount(), httpClient)).status).toBe(201);
});

test("POST /auth/register: counts an IPv6 address by its /64", async () => {
  const left = async (address: string) =>
    (await register({}, app.httpClient(address))).headers.get("ratelimit-remaining");
  const network = `2001:db8:${randomInt(65_536).toString(16)}`;
  expect(await left(`${network}:1::1`)).toBe("9");
  expect(await left(`${network}:1:ffff::2`)).toBe("8");
  expect(await left(`${network}:2::1`)).toBe("9");
});

test.each([
  ["address", (email: string) => [`  ${email}`, "Ann"]],
  ["name", () => ["ann exAmple-1", " Ann Example-1"]],
])(
  "POST /auth/register: rejects the user's %s as password, along with all other violations",
  async (_what, make) => {
    const email = `Ann1${randomUUID()}@example.com`;
    const [password = "", name] = make(email);
    const answer = await register(newAccount({ email, password, name, acceptTerms: false }));
    expect(answer.body.violations).toHaveLength(2);
    expect(fieldsIn(answer)).toEqual(["acceptTerms", "password"]);
  },
);

test("POST /user/change-password, /auth/reset-password: reject the user's address and name", async () => {
  const { user, post } = await app.signIn(await app.addVerifiedUser({ name: "Ann-Example-1" }));
  const change = { currentPassword: user.password, newPassword: "ann-EXAMPLE-1" };
  expect(await post("/user/change-password", change)).toMatchObject(invalid("newPassword"));
  const token = await app.resetTokenFor(user.email);
  expect(await app.resetPassword(token, "Ann-Example-1")).toMatchObject(invalid("password"));
  expect((await app.resetPassword(token)).status).toBe(200);
});

test("POST /auth/register: accepts a common password by default", async () => {
  expect((await register(newAccount({ password: "P@ssw0rd" }))).status).toBe(201);
});

test("POST /auth/register: trims the name before the checks, and requires a visible character", async () => {
  const { body } = await register(newAccount({ name: "\n Ann\r\n\t" }));
  expect(await app.sql("select name from users where id = ?", [body.userId])).toEqual([
    { name: "Ann" },
  ]);
  for (const name of ["A\nnn", "\u0001Ann", "", "  ", "x".repeat(101)])
    expect(await register(newAccount({ name }))).toMatchObject(invalid("name"));
  const invisible = await register(newAccount({ name: "\u200b\u3164\u2800" }));
  expect(invisible.body.violations).toEqual([
    { field: "name", message: "must contain a visible character" },
  ]);
});
