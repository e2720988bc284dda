import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { newAccount, PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { invalid } from "../../support/http/responses.ts";

const app = await testApp();
const auth = app.grpc(AuthService);
const register = (changes: object) => app.httpClient().post("/auth/register", newAccount(changes));

const inFullWidth = (text: string) =>
  text.replace(/[!-~]/g, (c) => String.fromCodePoint(c.charCodeAt(0) + 0xfee0));
const inArabicDigits = (text: string) =>
  text.replace(/\d/g, (digit) => String.fromCodePoint(0x660 + Number(digit)));

/** What an input method, a clipboard or a word processor makes of an address. */
const typings = [
  {
    how: "with a space without width in the domain",
    typed: (a: string) => a.replace("mple", "\u200bmple"),
  },
  {
    how: "with a space without width before the @",
    typed: (a: string) => a.replace("@", "\u200b@"),
  },
  { how: "after a byte order mark", typed: (a: string) => `\ufeff${a}` },
  { how: "between marks of direction", typed: (a: string) => `\u2068${a}\u2069` },
  { how: "with a soft hyphen", typed: (a: string) => a.replace("@", "@\u00ad") },
  { how: "with a word joiner", typed: (a: string) => a.replace(".com", "\u2060.com") },
  { how: "with a variation selector", typed: (a: string) => a.replace("@", "\ufe0f@") },
  { how: "with typographic dashes", typed: (a: string) => a.replaceAll("-", "–") },
  {
    how: "with Japanese vowel signs",
    typed: (a: string) => a.replace("-", "ー").replace("-", "ｰ"),
  },
  { how: "with no-break hyphens", typed: (a: string) => a.replaceAll("-", "\u2011") },
  { how: "in full-width characters", typed: inFullWidth },
  { how: "in Arabic-Indic digits", typed: (a: string) => inArabicDigits(a) },
  { how: "with a line end", typed: (a: string) => `${a}\r\n` },
  { how: "with no-break spaces around", typed: (a: string) => `\u00a0${a}\u00a0` },
];

test.each(typings)(
  "POST /auth/register: an address $how is stored in its usual form, and signs in on both ports",
  async ({ typed }) => {
    const email = `Ann-${randomUUID()}@example.com`;
    expect((await register({ email: typed(email) })).status).toBe(201);
    expect((await register({ email })).status).toBe(409);
    const { body } = await app.login(typed(email));
    expect(body.user.email).toBe(email);
    const { accessToken = "", user } = await auth.login({
      email: typed(email),
      password: PASSWORD,
    });
    expect(user?.email).toBe(email);
    expect((await app.httpClient().get("/user/profile", accessToken)).body.email).toBe(email);
    const queued = await app.sql(`select distinct "to" from emails where user_id = ?`, [user?.id]);
    expect(queued).toEqual([{ to: email }]);
    const token = await app.resetTokenFor(email);
    expect((await app.resetPassword(token)).status).toBe(200);
  },
);

test("POST /auth/forgot-password: finds the account however the address is typed", async () => {
  const { email } = await app.addUser();
  const typed = `\u200b${email.replace("@", "＠")}\n`;
  expect((await app.httpClient().post("/auth/forgot-password", { email: typed })).status).toBe(200);
  await app.mail.emailTo(email, /Reset/);
});

test("POST /auth/register: joiners that distinguish domains are kept", async () => {
  const local = randomUUID();
  const email = `${local}@نامه\u200cای.example`;
  expect((await register({ email })).status).toBe(201);
  const { body } = await app.login(`${local}@xn--mgba3gch31f060k.example`);
  expect(body.user.email).toBe(email);
});

test.each([
  "ann smith@example.com",
  "ann@exam ple.com",
  "ann\u212a@example.com",
  "änn@example.com",
])("POST /auth/register: rejects %j, which may be another address", async (email) => {
  expect(await register({ email })).toMatchObject(invalid("email"));
});

describe("Names", () => {
  test.each([
    { how: "decomposed", typed: "Zoe\u0308 A\u030angstro\u0308m", stored: "Zoë Ångström" },
    {
      how: "with invisible characters",
      typed: "\ufeffAnn\u200b Sm\u00adith\u200e",
      stored: "Ann Smith",
    },
    { how: "with no-break spaces", typed: "\u00a0Ann\u00a0Smith\u202f", stored: "Ann Smith" },
    { how: "that is overridden to be read from the right", typed: "Ann\u202e", stored: "Ann" },
    { how: "with joiners of its language", typed: "علی\u200cرضا", stored: "علی\u200cرضا" },
    { how: "with an emoji of several", typed: "Ann 👩\u200d🚀", stored: "Ann 👩\u200d🚀" },
    { how: "with an emoji in colour at its end", typed: "Ann ❤\ufe0f", stored: "Ann ❤\ufe0f" },
    { how: "with a typographic dash", typed: "Anne–Marie", stored: "Anne–Marie" },
  ])("PUT /user/profile: a name $how is stored as it reads", async ({ typed, stored }) => {
    const { put, get } = await app.signIn();
    expect((await put("/user/profile", { name: typed })).body.user.name).toBe(stored);
    expect((await get("/user/profile")).body.name).toBe(stored);
  });
});
