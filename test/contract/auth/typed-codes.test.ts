import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { NEW_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { errorOf } from "../../support/http/stub-services.ts";

const app = await testApp();
const auth = app.grpc(AuthService);

/** The digits of a code in another script. */
const inScript = (zero: number) => (code: string) =>
  code.replace(/\d/g, (digit) => String.fromCodePoint(zero + Number(digit)));
const inGroups = (separator: string) => (code: string) =>
  `${code.slice(0, 3)}${separator}${code.slice(3)}`;

type Typing = { how: string; typed: (code: string) => string };

const codes: Typing[] = [
  { how: "in groups, as apps show it", typed: inGroups(" ") },
  { how: "with a no-break space", typed: inGroups("\u00a0") },
  { how: "with a thin space", typed: inGroups("\u2009") },
  { how: "with an ideographic space", typed: inGroups("\u3000") },
  { how: "with a hyphen", typed: inGroups("-") },
  { how: "with an en dash", typed: inGroups("–") },
  { how: "with blanks and line ends around", typed: (code) => `\t ${code}\r\n` },
  { how: "with a space without width inside", typed: inGroups("\u200b") },
  { how: "after a byte order mark", typed: (code) => `\ufeff${code}` },
  { how: "between marks of direction", typed: (code) => `\u202a${code}\u202c` },
  { how: "with a blank after each digit", typed: (code) => [...code].join(" ") },
  { how: "in full-width digits", typed: inScript(0xff10) },
  { how: "in Arabic-Indic digits", typed: inScript(0x0660) },
  { how: "in Persian digits", typed: inScript(0x06f0) },
  { how: "in Devanagari digits", typed: inScript(0x0966) },
  { how: "in bold digits of mathematics", typed: inScript(0x1d7ce) },
];

const backupCodes: Typing[] = [
  { how: "with an en dash", typed: (code) => code.replace("-", "–") },
  { how: "with an em dash", typed: (code) => code.replace("-", "—") },
  { how: "with a minus sign", typed: (code) => code.replace("-", "−") },
  { how: "with a no-break hyphen", typed: (code) => code.replace("-", "\u2011") },
  { how: "with a soft hyphen", typed: (code) => code.replace("-", "\u00ad") },
  { how: "with a full-width hyphen", typed: (code) => code.replace("-", "－") },
  {
    how: "with the long vowel sign of a Japanese keyboard",
    typed: (code) => code.replace("-", "ー"),
  },
  { how: "with a space", typed: (code) => code.replace("-", " ") },
  { how: "with blanks around the dash", typed: (code) => code.replace("-", " – ") },
  { how: "in small letters, with a line end", typed: (code) => `${code.toLowerCase()}\n` },
  {
    how: "in full-width letters",
    typed: (code) =>
      code.replace(/[A-Z\d]/g, (c) => String.fromCodePoint(c.charCodeAt(0) + 0xfee0)),
  },
];

/** Texts that can't be a code. */
const noCodes = ["12345", "1234567", "abcdef", "12345a", "٣٤٥", "—", "\u200b", "1,2,3,4,5,6"];
const noBackupCodes = ["ABCD", "ABCD-EFGHI", "ABCD_EFGH", "ABCD-EFÄH", "––––", "\u00a0"];

describe("POST /auth/verify-mfa", () => {
  test.each(codes)(
    "POST /auth/verify-mfa: accepts a code $how, on both ports",
    async ({ typed }) => {
      const { user, authenticator } = await app.setUpFactor();
      const code = typed(await authenticator.code());
      expect((await app.signInBy(user, { code })).status).toBe(200);
      app.clock.advance("30s");
      const tempToken = await app.mfaTokenFor(user);
      const next = typed(await authenticator.code());
      expect((await auth.verifyMfa({ tempToken, code: next })).user?.id).toBe(user.id);
    },
  );

  test.each(backupCodes)(
    "POST /auth/verify-mfa: accepts a backup code $how, on both ports",
    async ({ typed }) => {
      const { user, authenticator } = await app.setUpFactor();
      const [first = "", second = ""] = authenticator.backupCodes;
      expect((await app.signInBy(user, { backupCode: typed(first) })).status).toBe(200);
      const tempToken = await app.mfaTokenFor(user);
      expect((await auth.verifyMfa({ tempToken, backupCode: typed(second) })).user?.id).toBe(
        user.id,
      );
      expect(await app.signInBy(user, { backupCode: first })).toMatchObject(
        refusal(401, "INVALID_CODE"),
      );
    },
  );

  test("POST /auth/verify-mfa: returns 400 for what cannot be a code, without counting it or sending an e-mail", async () => {
    const { user, authenticator } = await app.setUpFactor();
    const tempToken = await app.mfaTokenFor(user);
    for (const code of noCodes)
      expect(await app.verifyMfa(tempToken, { code }), code).toMatchObject(invalid("code"));
    for (const backupCode of noBackupCodes)
      expect(await app.verifyMfa(tempToken, { backupCode }), backupCode).toMatchObject(
        invalid("backupCode"),
      );
    for (const code of noCodes)
      expect((await errorOf(auth.verifyMfa({ tempToken, code }))).code).toBe(Code.InvalidArgument);
    expect(await app.sql("select 1 from attempts where subject = ?", [user.id])).toEqual([]);
    expect(
      await app.sql(
        "select template from emails where user_id = ? and template in ('wrong-code', 'account-locked')",
        [user.id],
      ),
    ).toEqual([]);
    expect((await app.verifyMfa(tempToken, { code: await authenticator.code() })).status).toBe(200);
  });

  test("POST /auth/verify-mfa: accepts an MFA token with spaces and line breaks", async () => {
    const { user, authenticator } = await app.setUpFactor();
    const tempToken = await app.mfaTokenFor(user);
    const typed = ` ${tempToken.slice(0, 40)}\r\n ${tempToken.slice(40)}\u200b\n`;
    expect((await app.verifyMfa(typed, { code: await authenticator.code() })).status).toBe(200);
    expect(await app.verifyMfa("<token>", { code: "123456" })).toMatchObject(invalid("tempToken"));
  });
});

test.each(codes)(
  "POST /auth/backup-codes, /auth/disable-totp: accept a code $how",
  async ({ typed }) => {
    const { user, post, authenticator } = await app.setUpConfirmedFactor();
    const { password } = user;
    const code = typed(await authenticator.code());
    expect((await post("/auth/backup-codes", { password, code })).status).toBe(200);
    app.clock.advance("30s");
    const next = typed(await authenticator.code());
    expect((await post("/auth/disable-totp", { password, code: next })).status).toBe(200);
  },
);

test("POST /auth/disable-totp: accepts a backup code with a typographic dash", async () => {
  const { user, post, authenticator } = await app.setUpConfirmedFactor();
  const backupCode = authenticator.backupCodes[0]?.replace("-", "–");
  expect((await post("/auth/disable-totp", { password: user.password, backupCode })).status).toBe(
    200,
  );
});

test.each(["/auth/backup-codes", "/auth/disable-totp"])(
  "POST %s: an impossible code is 400, and counts as no attempt",
  async (path) => {
    const { user, post } = await app.setUpConfirmedFactor();
    for (const code of noCodes)
      expect(await post(path, { password: user.password, code }), code).toMatchObject(
        invalid("code"),
      );
    const counted = "select 1 from attempts where subject = ? and failed > 0";
    expect(await app.sql(counted, [user.id])).toEqual([]);
  },
);

const tokens: Typing[] = [
  { how: "with a line end", typed: (token) => `${token}\n` },
  { how: "with blanks around", typed: (token) => `  ${token}\t` },
  { how: "broken over two lines", typed: (token) => `${token.slice(0, 20)}\r\n${token.slice(20)}` },
  { how: "with a blank inside", typed: (token) => `${token.slice(0, 9)} ${token.slice(9)}` },
  { how: "with a no-break space inside", typed: (t) => `${t.slice(0, 9)}\u00a0${t.slice(9)}` },
  { how: "with a soft hyphen inside", typed: (t) => `${t.slice(0, 30)}\u00ad${t.slice(30)}` },
  { how: "with a space without width", typed: (token) => `\u200b${token}\u200b` },
  { how: "after a byte order mark", typed: (token) => `\ufeff${token}` },
  { how: "with typographic hyphens", typed: (token) => token.replaceAll("-", "‑") },
];

test.each(tokens)(
  "POST /auth/verify-email: accepts a token $how, on both ports",
  async ({ typed }) => {
    const [one, other] = [await app.addUser(), await app.addUser()];
    const { token } = await app.mail.emailTo(one.email);
    expect((await app.verifyEmail(typed(token as string))).status).toBe(200);
    const { token: second } = await app.mail.emailTo(other.email);
    await auth.verifyEmail({ token: typed(second as string) });
  },
);

test.each(tokens)("POST /auth/reset-password: accepts a token $how", async ({ typed }) => {
  const { email } = await app.addUser();
  const token = typed(await app.resetTokenFor(email));
  expect((await app.resetPassword(token)).status).toBe(200);
  expect((await app.login(email, NEW_PASSWORD)).status).toBe(200);
});

test.each(["<token>", "to/ken", "tökén", "\u200b", "a=b&c"])(
  "POST /auth/verify-email, /auth/reset-password: reject %j, which cannot be a token",
  async (token) => {
    expect(await app.verifyEmail(token)).toMatchObject(invalid("token"));
    expect(await app.resetPassword(token)).toMatchObject(invalid("token"));
  },
);
