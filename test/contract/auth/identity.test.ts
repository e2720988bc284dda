import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { testApp } from "../../support/app.ts";

const app = await testApp();
const PASSWORD = "Correct-horse-1";
const register = (email: string, changes = {}) =>
  app.httpClient().post("/auth/register", { email, password: PASSWORD, name: "Ann", acceptTerms: true, ...changes });
const MAILING = ["/auth/forgot-password", "/auth/resend-verification"];
const login = async (email: string) =>
  (await app.httpClient().post("/auth/login", { email, password: PASSWORD })).status;

/** Other spellings of ann@bücher.example: the same account. */
const SAME: [string, (id: string) => string][] = [
  ["capitals", (id) => `${id}.ANN@BÜCHER.EXAMPLE`],
  ["punycode", (id) => `${id}.ann@xn--bcher-kva.example`],
  ["capital punycode", (id) => `${id}.ann@XN--BCHER-KVA.example`],
  ["decomposed letters", (id) => `${id}.ann@bu\u0308cher.example`],
  ["full-width domain", (id) => `${id}.ann@ｂücher.ｅxample`],
  ["an ideographic dot", (id) => `${id}.ann@bücher。example`],
  ["a full-width dot", (id) => `${id}.ann@bücher．example`],
  ["spaces around", (id) => `  ${id}.ann@bücher.example\t`],
  ["a no-break space", (id) => `\u00a0${id}.ann@bücher.example\u3000`],
];

/** Texts that look like an address and are none. */
const NOT: [string, (id: string) => string][] = [
  ["a Kelvin sign", (id) => `${id}.\u212Aate@example.com`],
  ["a full-width letter", (id) => `${id}.ａnn@example.com`],
  ["a dotless i", (id) => `${id}.\u0131da@example.com`],
  ["a space inside", (id) => `${id} ann@example.com`],
  ["a space before the domain", (id) => `${id}@ example.com`],
  ["two dots", (id) => `${id}..ann@example.com`],
  ["a dot at the end of the name", (id) => `${id}.@example.com`],
  ["a dot at the end of the domain", (id) => `${id}@example.com.`],
  ["a zero-width space", (id) => `${id}\u200b@example.com`],
  ["a line break and a header", (id) => `${id}@example.com\r\nBcc: evil@example.com`],
  ["a lone line feed", (id) => `${id}@exam\nple.com`],
  ["a list", (id) => `${id}@example.com,evil@example.com`],
  ["a name beside it", (id) => `"Ann" <${id}@example.com>`],
  ["a quoted name", (id) => `"${id} ann"@example.com`],
  ["an address as domain", (id) => `${id}@[127.0.0.1]`],
  ["a percent sign", (id) => `${id}@ex%61mple.org`],
  ["a percent sign for a dot", (id) => `${id}@%2e.com`],
  ["a zero-width space as a label", (id) => `${id}@\u200b.com`],
  ["a hyphen before a label", (id) => `${id}@-x.com`],
  ["a hyphen after a label", (id) => `${id}@x-.com`],
  ["punycode of nothing", (id) => `${id}@xn--.com`],
  ["an empty label", (id) => `${id}@b..com`],
  ["one label", (id) => `${id}@localhost`],
  ["a number as the last label", (id) => `${id}@10.20`],
  ["a domain that punycode makes too long", (id) => `${id}@${`${"日本語".repeat(4)}.`.repeat(9)}example`],
];

test.each(SAME)(
  "E-mail identity: %s: is the same account, and mails go to the stored address",
  async (_what, spelling) => {
    const id = randomUUID();
    const stored = `${id}.ann@bücher.example`;
    expect((await register(stored)).status).toBe(201);
    const variant = spelling(id);
    expect(await register(variant)).toMatchObject({ status: 409, body: { code: "EMAIL_TAKEN" } });
    expect(await login(variant)).toBe(200);
    for (const path of MAILING) await app.httpClient().post(path, { email: variant });
    const to = await app.sql<{ to: string }>(
      `select "to" from emails e join users u on u.id = e.user_id where u.email = ? order by e.id`,
      [stored],
    );
    expect(to.map((row) => row.to)).toEqual([stored, stored, stored]);
    await app.mail.emailTo(`${id}.ann@xn--bcher-kva.example`, /Reset/);
  },
);

test.each(NOT)("E-mail identity: %s is refused as an address everywhere", async (_what, spelling) => {
  const email = spelling(randomUUID());
  const refused = { status: 400, body: { code: "VALIDATION_FAILED", violations: [{ field: "email" }] } };
  expect(await register(email)).toMatchObject(refused);
  for (const path of MAILING) {
    expect(await app.httpClient().post(path, { email })).toMatchObject(refused);
  }
  expect(await login(email)).toBe(400);
});

test("E-mail identity: plus signs and dots of the local part make different accounts", async () => {
  const id = randomUUID();
  for (const email of [`${id}.ann@example.com`, `${id}ann@example.com`, `${id}.ann+x@example.com`]) {
    expect((await register(email)).status).toBe(201);
  }
});

test("Line breaks: never reach a header of a mail", async () => {
  for (const name of ["Ann\r\nBcc: evil@example.com", "Ann\nX: y", "Ann\u2028Bcc: x", "Ann\u0085Bcc: x"]) {
    const email = `${randomUUID()}@example.com`;
    const { status } = await register(email, { name });
    if (status === 400) continue;
    const mail = await app.mail.emailTo(email);
    expect(mail.headers.map(({ key }) => key)).not.toContain("bcc");
    expect(mail.headers.map(({ key }) => key)).not.toContain("x");
  }
});

test("Line breaks: are stored, and never make a new line in the audit log", async () => {
  const { browser, accessToken, user } = await app.signIn();
  const answer = await browser.put("/user/profile", { bio: "two\r\nlines" }, accessToken);
  expect(answer.body.user.bio).toBe("two\r\nlines");
  const rows = await app.sql("select user_agent from audit_events where user_id = ?", [user.id]);
  expect(JSON.stringify(rows)).not.toContain("\\n");
});

describe("Mass assignment", () => {
  const extra = {
    role: "admin",
    email: "x@example.com",
    emailVerified: true,
    mfaEnabled: true,
    id: randomUUID(),
    deletionAt: null,
    sub: "x",
  };

  test.each([
    ["PUT", "/user/profile", { name: "Bea" }],
    ["POST", "/user/change-password", { currentPassword: PASSWORD, newPassword: "Brand-new-2" }],
    ["POST", "/user/change-email", { newEmail: `${randomUUID()}@example.com`, password: PASSWORD }],
    ["POST", "/auth/setup-totp", {}],
    ["POST", "/auth/logout", {}],
  ])("%s %s ignores fields that it does not name", async (method, path, body) => {
    const { user, browser, accessToken } = await app.signIn();
    const columns = "select id, email, role, email_verified_at, mfa_confirmed_at, deletion_at from users where id = ?";
    const before = await app.sql(columns, [user.id]);
    const answer = await browser.send(method, path, { ...body, ...extra }, { authorization: `Bearer ${accessToken}` });
    expect(answer.status).toBe(200);
    expect(await app.sql(columns, [user.id])).toEqual(before);
  });

  test("POST /auth/login and /auth/reset-password ignore fields that they do not name", async () => {
    const user = await app.addUser();
    await app.httpClient().post("/auth/forgot-password", { email: user.email });
    const { token } = await app.mail.emailTo(user.email, /Reset/);
    const reset = { token, password: "Brand-new-2", ...extra, userId: randomUUID() };
    expect((await app.httpClient().post("/auth/reset-password", reset)).status).toBe(200);
    const login = { ...extra, email: user.email, password: "Brand-new-2" };
    const { body } = await app.httpClient().post("/auth/login", login);
    expect(body.user).toEqual({ id: user.id, email: user.email, name: user.name, role: "user" });
  });
});
