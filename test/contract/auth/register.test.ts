import { randomInt, randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { tally, times } from "../../support/until.ts";

const app = await testApp();
const body = (changes = {}) => ({
  email: `${randomUUID()}@example.com`,
  password: "Correct-horse-1",
  name: "Ann",
  acceptTerms: true,
  ...changes,
});

test("POST /auth/register: creates an account and mails the verification link in text and HTML", async () => {
  const wanted = body({ name: "Sign in at evil.example" });
  const answer = await app.httpClient().post("/auth/register", wanted);
  expect(answer).toMatchObject({ status: 201, body: { message: expect.any(String) } });
  expect(answer.body.userId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const mail = await app.mail.emailTo(wanted.email);
  expect(mail.subject).toBe("Confirm your e-mail address");
  expect(mail.link).toBe(`http://gatehouse.test/verify-email#token=${mail.token}`);
  expect(mail.text).toMatch(/^Hello,/);
  expect(`${mail.text}${mail.html}`).not.toContain("evil.example"); // the address may belong to another person
  expect(mail.html).toContain(mail.token);
  expect(mail.text).toContain("for 24 hours");
  expect(mail.from).toMatchObject({ name: "Gatehouse", address: "no-reply@localhost" });
});

test("POST /auth/register: lists every invalid field at once", async () => {
  const { status, body: answer } = await app
    .httpClient()
    .post("/auth/register", { email: "not-an-address", password: "short", name: " " });
  expect(status).toBe(400);
  expect(answer).toMatchObject({ statusCode: 400, error: "Bad Request", code: "VALIDATION_FAILED" });
  const fields = new Set(answer.violations.map(({ field }: { field: string }) => field));
  expect(fields).toEqual(new Set(["email", "password", "name", "acceptTerms"]));
});

test.each([
  ["Short1!", "8 to 128"],
  [`Aa1!${"x".repeat(125)}`, "8 to 128"],
  ["lowercase-1", "uppercase"],
  ["UPPERCASE-1", "lowercase"],
  ["No-digits-here", "digit"],
  ["NoSpecial123", "special"],
])("POST /auth/register: refuses the password %s", async (password, rule) => {
  const answer = await app.httpClient().post("/auth/register", body({ password }));
  expect(answer.status).toBe(400);
  expect(answer.body.violations).toEqual([{ field: "password", message: expect.stringContaining(rule) }]);
  expect(JSON.stringify(answer.body)).not.toContain(password);
});

test("POST /auth/register: acceptTerms must be true", async () => {
  for (const acceptTerms of [false, "true", 1, null]) {
    const answer = await app.httpClient().post("/auth/register", body({ acceptTerms }));
    expect(answer.body).toMatchObject({ statusCode: 400, violations: [{ field: "acceptTerms" }] });
  }
});

test("POST /auth/register: keeps the given spelling of the address, trimmed", async () => {
  const name = randomUUID();
  const first = body({ email: `  ${name}.Ann@Bücher.example ` });
  expect(await app.httpClient().post("/auth/register", first)).toMatchObject({ status: 201 });
  const credentials = { email: `${name}.ann@bücher.example`, password: first.password };
  const { browser, accessToken } = await app.signIn({ ...(await app.addUser()), credentials });
  expect((await browser.get("/user/profile", accessToken)).body.email).toBe(`${name}.Ann@Bücher.example`);
});

test("POST /auth/register: parallel requests create one account", async () => {
  const wanted = body();
  const answers = await Promise.all(times(12, () => app.httpClient().post("/auth/register", wanted)));
  expect(tally(answers, (a) => a.status)).toEqual({ 201: 1, 409: 11 });
});

test("POST /auth/register: ignores role, id, emailVerified and mfaEnabled in the body", async () => {
  const id = randomUUID();
  const wanted = body({ role: "admin", id, emailVerified: true, mfaEnabled: true });
  const { body: made } = await app.httpClient().post("/auth/register", wanted);
  expect(made.userId).not.toBe(id);
  const [row] = await app.sql("select role, email_verified_at, mfa_secret from users where id = ?", [made.userId]);
  expect(row).toEqual({ role: "user", email_verified_at: null, mfa_secret: null });
});

test("POST /auth/register: allows ten accounts in 15 minutes per address", async () => {
  const httpClient = app.httpClient();
  const answers = [];
  for (let i = 0; i < 11; i++) answers.push(await httpClient.post("/auth/register", body()));
  expect(tally(answers, (a) => a.status)).toEqual({ 201: 10, 429: 1 });
  expect(answers[0]?.headers.get("ratelimit-remaining")).toBe("9");
  expect(answers[10]?.body).toMatchObject({ statusCode: 429, error: "Too Many Requests", code: "RATE_LIMITED" });
  expect(answers[10]?.headers.get("ratelimit-remaining")).toBe("0");
  expect(Number(answers[10]?.headers.get("retry-after"))).toBeGreaterThan(890);
  app.clock.advance("15m");
  expect(await httpClient.post("/auth/register", body())).toMatchObject({ status: 201 });
});

test("POST /auth/register: counts an IPv6 address by its /64", async () => {
  const left = async (address: string) =>
    (await app.httpClient(address).post("/auth/register", {})).headers.get("ratelimit-remaining");
  const network = `2001:db8:${randomInt(65_536).toString(16)}`;
  expect(await left(`${network}:1::1`)).toBe("9");
  expect(await left(`${network}:1:ffff::2`)).toBe("8");
  expect(await left(`${network}:2::1`)).toBe("9");
});

test("POST /auth/register: writes account, token, mail and audit event in one transaction", async () => {
  const { id } = await app.addUser();
  const rows = await app.sql(
    `select (select count(*)::int from one_time_tokens where user_id = u.id) as tokens,
         (select count(*)::int from emails where user_id = u.id) as emails,
         (select array_agg(event) from audit_events where user_id = u.id) as events
       from users u where id = ?`,
    [id],
  );
  expect(rows).toEqual([{ tokens: 1, emails: 1, events: ["auth.register"] }]);
});
