import { randomUUID } from "node:crypto";
import type { CallOptions, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { FailureSchema } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { freshEmail, NEW_PASSWORD, newAccount, PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import type { HttpResponse } from "../../support/http/client.ts";
import { fieldsIn } from "../../support/http/responses.ts";

const app = await testApp();
const register = (email: string, changes = {}) =>
  app.httpClient().post("/auth/register", newAccount({ email, ...changes }));
const MAILING = ["/auth/forgot-password", "/auth/resend-verification"];

/** Every way to give an address to the service. Each returns the fields that were rejected. */
async function doors(): Promise<Record<string, (email: string) => Promise<string[]>>> {
  const [account, admin] = [await app.signIn(), await app.signInAdmin()];
  const [auth, token] = [app.grpc(AuthService), "A".repeat(43)];
  const post = (path: string, body: object) => app.httpClient().post(path, body).then(fieldsOf);
  const called = (call: (from: CallOptions) => Promise<unknown>): Promise<string[]> => {
    const headers = { "x-forwarded-for": app.httpClient().address }; // limits count each address
    return call({ headers }).then(() => [], violatedFields);
  };
  return {
    register: (email) => register(email).then(fieldsOf),
    login: (email) => post("/auth/login", { email, password: PASSWORD }),
    "forgot-password": (email) => post("/auth/forgot-password", { email }),
    "resend-verification": (email) => post("/auth/resend-verification", { email }),
    "email-code": (email) => post("/auth/email-code", { email }),
    "verify-email-code": (email) => post("/auth/verify-email-code", { email, code: "123456" }),
    "not-me": (email) => post("/auth/not-me", { email, token }),
    "change-email": (newEmail) =>
      account.post("/user/change-email", { newEmail, password: PASSWORD }).then(fieldsOf),
    invitation: (email) => admin.post("/admin/users", { email, name: "Ann" }).then(fieldsOf),
    "update by an administrator": (email) =>
      admin.put(`/admin/users/${account.user.id}`, { email }).then(fieldsOf),
    "AuthService/Register": (email) => called((from) => auth.register(newAccount({ email }), from)),
    "AuthService/Login": (email) =>
      called((from) => auth.login({ email, password: PASSWORD }, from)),
    "AuthService/ForgotPassword": (email) => called((from) => auth.forgotPassword({ email }, from)),
  };
}

const fieldsOf = ({ body }: Pick<HttpResponse, "body">): string[] =>
  body.code === "VALIDATION_FAILED" ? fieldsIn({ body }) : [];
const violatedFields = (error: ConnectError): string[] =>
  error
    .findDetails(FailureSchema)
    .flatMap(({ violations }) => violations.map(({ field }) => field));

/** Other spellings of ID.ann@bücher.example: the same account. */
const SAME = [
  ["capitals", "ID.ANN@BÜCHER.EXAMPLE"],
  ["punycode", "ID.ann@xn--bcher-kva.example"],
  ["capital punycode", "ID.ann@XN--BCHER-KVA.example"],
  ["decomposed letters", "ID.ann@bu\u0308cher.example"],
  ["full-width domain", "ID.ann@ｂücher.ｅxample"],
  ["an ideographic dot", "ID.ann@bücher。example"],
  ["a full-width dot", "ID.ann@bücher．example"],
  ["spaces around", "  ID.ann@bücher.example\t"],
  ["a no-break space", "\u00a0ID.ann@bücher.example\u3000"],
  ["spaces without width", "ID\u200b.ann@bü\u200bcher.example"],
  ["full-width letters", "ID.ａｎｎ＠bücher.example"],
];

/** Texts that look like an address and are none. */
const NOT = [
  ["letters of other scripts", "ID.\u212Aate@example.com", "ID.\u0131da@example.com"],
  ["spaces", "ID ann@example.com", "ID@ example.com"],
  ["nothing but spaces without width", "\u200b@example.com", "ID@\u200b.com"],
  ["dots at an edge of a domain", "ID@example.com.", "ID@.example.com", "ID@b..com"],
  ["nothing before the @", "@example.com"],
  ["line breaks", "ID@example.com\r\nBcc: evil@example.com", "ID@exam\nple.com"],
  [
    "further syntax of mails",
    "ID@example.com,evil@example.com",
    '"Ann" <ID@example.com>',
    '"ID ann"@example.com',
  ],
  ["a number as domain", "ID@[127.0.0.1]", "ID@10.20"],
  ["percent signs", "ID@ex%61mple.org", "ID@%2e.com"],
  ["hyphens at an edge", "ID@-x.com", "ID@x-.com"],
  [
    "impossible domains",
    "ID@localhost",
    "ID@xn--.com",
    `ID@${`${"日本語".repeat(4)}.`.repeat(9)}example`,
  ], // the last is too long in punycode
];

test.each(SAME)(
  "E-mail identity: %s: the same account, with e-mails to the stored address",
  async (_what, spelling) => {
    const id = randomUUID();
    const stored = `${id}.ann@bücher.example`;
    expect((await register(stored)).status).toBe(201);
    const variant = spelling.replace("ID", id);
    expect(await register(variant)).toMatchObject({ status: 409, body: { code: "EMAIL_TAKEN" } });
    expect((await app.login(variant)).status).toBe(200);
    for (const path of MAILING) await app.httpClient().post(path, { email: variant });
    const to = await app.sql<{ to: string }>(
      `select "to" from emails e join users u on u.id = e.user_id where u.email = ? order by e.id`,
      [stored],
    );
    expect(to.map((row) => row.to)).toEqual([stored, stored, stored]);
    await app.mail.emailTo(`${id}.ann@xn--bcher-kva.example`, /Reset/);
  },
);

test.each(NOT)(
  "E-mail identity: addresses with %s are rejected everywhere",
  async (_what, ...spellings) => {
    for (const [door, enter] of Object.entries(await doors()))
      for (const spelling of spellings) {
        const email = spelling.replace("ID", randomUUID());
        const field = door === "change-email" ? "newEmail" : "email";
        expect([door, email, await enter(email)]).toEqual([door, email, [field]]);
      }
  },
);

/** Local parts of addresses that exist, or that a browser accepts in a field for addresses (HTML). */
const LOCAL_PARTS = ["ID.", ".ID", "a..ID", "..ID..", "!#$%&'*+/=?^_`{|}~-ID"];

test.each(LOCAL_PARTS)(
  "E-mail identity: %s before the @ is accepted everywhere, and its mailbox opens the account",
  async (localPart) => {
    const fresh = () => `${localPart.replace("ID", randomUUID())}@example.com`;
    for (const [door, enter] of Object.entries(await doors()))
      expect([door, await enter(fresh())]).toEqual([door, []]);
    const email = fresh();
    expect((await register(email)).status).toBe(201);
    expect(await register(email.toUpperCase())).toMatchObject({ status: 409 });
    const token = await app.resetTokenFor(email);
    expect((await app.resetPassword(token)).status).toBe(200);
    expect((await app.login(email, NEW_PASSWORD)).body.user.email).toBe(email);
  },
);

test("E-mail identity: plus signs and dots in the local part distinguish accounts", async () => {
  const id = randomUUID();
  for (const email of [`${id}.ann@example.com`, `${id}ann@example.com`, `${id}.ann+x@example.com`])
    expect((await register(email)).status).toBe(201);
});

test("Line breaks: never reach a header of an e-mail", async () => {
  for (const name of [
    "Ann\r\nBcc: evil@example.com",
    "Ann\nX: y",
    "Ann\u2028Bcc: x",
    "Ann\u0085Bcc: x",
  ]) {
    const email = freshEmail();
    const { status } = await register(email, { name });
    if (status === 400) continue;
    const headers = (await app.mail.emailTo(email)).headers.map(({ key }) => key);
    expect(headers).toContain("to");
    for (const forged of ["bcc", "x"]) expect(headers).not.toContain(forged);
  }
});

describe("Mass assignment", () => {
  const flags = { emailVerified: true, mfaEnabled: true, deletionAt: null };
  const extra = { role: "admin", email: "x@example.com", id: randomUUID(), sub: "x", ...flags };

  test.each([
    { method: "PUT", path: "/user/profile", body: { name: "Bea" } },
    {
      method: "POST",
      path: "/user/change-password",
      body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD },
    },
    {
      method: "POST",
      path: "/user/change-email",
      body: { newEmail: freshEmail(), password: PASSWORD },
    },
    { method: "POST", path: "/auth/setup-totp", body: {} },
    { method: "POST", path: "/auth/logout", body: {} },
  ])("$method $path ignores fields that it does not define", async ({ method, path, body }) => {
    const { user, browser, headers } = await app.signIn();
    const columns =
      "select id, email, role, email_verified_at, mfa_confirmed_at, deletion_at from users where id = ?";
    const before = await app.sql(columns, [user.id]);
    expect((await browser.send(method, path, { ...body, ...extra }, headers)).status).toBe(200);
    expect(await app.sql(columns, [user.id])).toEqual(before);
  });

  test("registration, reset and login ignore fields that they do not define", async () => {
    const email = freshEmail();
    const { body: made } = await register(email, { ...extra, email });
    expect(made.userId).not.toBe(extra.id);
    const row = "select role, email_verified_at, mfa_secret from users where id = ?";
    expect(await app.sql(row, [made.userId])).toEqual([
      { role: "user", email_verified_at: null, mfa_secret: null },
    ]);
    const token = await app.resetTokenFor(email);
    const reset = { token, password: NEW_PASSWORD, ...extra, userId: randomUUID() };
    expect((await app.httpClient().post("/auth/reset-password", reset)).status).toBe(200);
    const { body } = await app
      .httpClient()
      .post("/auth/login", { ...extra, email, password: NEW_PASSWORD });
    expect(body.user).toEqual({ id: made.userId, email, name: "Ann", role: "user" });
  });
});
