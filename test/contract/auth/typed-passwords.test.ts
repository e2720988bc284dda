import { randomUUID } from "node:crypto";
import { hash } from "@node-rs/argon2";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { newAccount } from "../../support/accounts.ts";
import { CHEAP, startSuiteApp, testApp } from "../../support/app.ts";
import { invalid, refusal } from "../../support/http/responses.ts";

const app = await testApp();
const auth = app.grpc(AuthService);
const register = (password: string, changes = {}) =>
  app.httpClient().post("/auth/register", newAccount({ password, ...changes }));

/** Passwords that have a composed and a decomposed form. */
const passwords = [
  "Pässwörd-ñandú-7X",
  "Ångström#1 Ångström",
  "가나다라마바사-Aa1",
  "Việt-Nam-2024-ế",
  "\u1e9b\u0323-Long-s-with-dots-1",
];

describe.each(passwords)("Password %s", (password) => {
  const forms = [password.normalize("NFC"), password.normalize("NFD")] as [string, string];
  const [composed, decomposed] = forms;

  test.each([
    { set: "composed", own: composed, other: decomposed },
    { set: "decomposed", own: decomposed, other: composed },
  ])(
    "POST /auth/login: accepts both forms of one that was registered $set",
    async ({ own, other }) => {
      const email = `${randomUUID()}@example.com`;
      expect((await register(own, { email })).status).toBe(201);
      expect((await app.login(email, own)).status).toBe(200);
      expect((await app.login(email, other)).status).toBe(200);
      expect((await auth.login({ email, password: other })).user?.email).toBe(email);
      expect((await app.login(email, `${other}x`)).status).toBe(401);
    },
  );

  test("POST /auth/reset-password, /user/change-password, /auth/setup-totp: accept both forms", async () => {
    const { email } = await app.addUser();
    const reset = await app.resetPassword(await app.resetTokenFor(email), decomposed);
    expect(reset.status).toBe(200);
    const { body } = await app.login(email, composed);
    const post = (path: string, request: object) =>
      app.httpClient().post(path, request, body.accessToken);
    expect((await post("/auth/setup-totp", { password: composed })).status).toBe(200);
    const same = { currentPassword: decomposed, newPassword: composed };
    expect(await post("/user/change-password", same)).toMatchObject(invalid("newPassword"));
    const change = { currentPassword: composed, newPassword: `${decomposed}!` };
    expect((await post("/user/change-password", change)).status).toBe(200);
    expect((await app.login(email, `${composed}!`)).status).toBe(200);
  });
});

describe("Hashes of earlier versions, made from the password as typed", () => {
  const decomposed = "Pässwörd-ñandú-7X".normalize("NFD");
  const hashOf = async (id: string) =>
    (
      await app.sql<{ hash: string }>("select password_hash as hash from users where id = ?", [id])
    )[0]?.hash;
  const addEarlier = async () => {
    const user = await app.addUser();
    const earlier = await hash(decomposed, { ...CHEAP, parallelism: 1 });
    await app.sql("update users set password_hash = ? where id = ?", [earlier, user.id]);
    return {
      ...user,
      password: decomposed,
      credentials: { email: user.email, password: decomposed },
    };
  };

  test("POST /auth/login: accepts the password, and renews the hash", async () => {
    const { id, email } = await addEarlier();
    expect((await app.login(email, `${decomposed}x`)).status).toBe(401);
    const earlier = await hashOf(id);
    expect((await app.login(email, decomposed)).status).toBe(200);
    const renewed = await hashOf(id);
    expect(renewed).not.toBe(earlier);
    for (const form of ["NFC", "NFD"] as const)
      expect((await app.login(email, decomposed.normalize(form))).status).toBe(200);
    expect(await hashOf(id)).toBe(renewed);
  });

  test("POST /user/change-email: a confirmation accepts the password, and renews the hash", async () => {
    const user = await app.addUser();
    const { post } = await app.signIn(user);
    const earlier = await hash(decomposed, { ...CHEAP, parallelism: 1 });
    await app.sql("update users set password_hash = ? where id = ?", [earlier, user.id]);
    const change = { newEmail: `${randomUUID()}@example.com`, password: decomposed };
    expect((await post("/user/change-email", change)).status).toBe(200);
    expect((await app.login(user.email, decomposed.normalize("NFC"))).status).toBe(200);
  });

  test("POST /auth/login: a wrong password in decomposed form is one guess", async () => {
    const { email } = await addEarlier();
    const wrong = "Würöng-1-guess".normalize("NFD");
    for (let i = 0; i < 5; i++) expect((await app.login(email, wrong)).status).toBe(401);
    expect(await app.login(email, wrong)).toMatchObject(refusal(423, "ACCOUNT_LOCKED"));
  });
});

test("POST /auth/register: a space is a special character", async () => {
  const email = `${randomUUID()}@example.com`;
  expect((await register("Abcdefg1 ", { email })).status).toBe(201);
  expect((await app.login(email, "Abcdefg1 ")).status).toBe(200);
  expect((await app.login(email, "Abcdefg1")).status).toBe(401);
  expect((await register("Correct horse 1")).status).toBe(201);
});

test("POST /auth/register, /auth/login: the length of a password is that of its composed form, in characters", async () => {
  const email = `${randomUUID()}@example.com`;
  const longest = `Aa1-${"ü".repeat(124)}`;
  expect((await register(longest.normalize("NFD"), { email })).status).toBe(201);
  expect((await app.login(email, longest)).status).toBe(200);
  expect((await app.login(email, longest.normalize("NFD"))).status).toBe(200);
  expect(await register(`${longest}ü`)).toMatchObject(invalid("password"));
  expect(await app.login(email, `${longest}ü`.normalize("NFD"))).toMatchObject(invalid("password"));
  expect(await register("Aa1-üüü".normalize("NFD"))).toMatchObject(invalid("password")); // seven
});

describe("PASSWORD_BLOCKLIST=on", async () => {
  const strict = await startSuiteApp({ env: { PASSWORD_BLOCKLIST: "on", APP_NAME: "Söhne & Co" } });
  const name = "Ann Smithson";

  test.each([
    { what: "the product's name", password: "Gatehouse1!" },
    { what: "the product's name, with signs for letters", password: "G@t3h0use-2030" },
    { what: "the product's name, with digits inside", password: "Gate-1-house" },
    { what: "the name of the installation", password: "Soehne-Söhne&Co1", refused: false },
    { what: "the name of the installation", password: "Söhne&Co2024" },
    { what: "the name of the installation without accents", password: "Sohne123!" },
    { what: "the user's name", password: "Ann Smithson1!" },
    { what: "the user's name backwards", password: "Smithson_Ann_99" },
    { what: "a part of the user's name", password: "Smithson#2024" },
    { what: "the names of the user and the product", password: "AnnGatehouse1!" },
    { what: "the user's address", password: "Zara.Quinn@example.com1" },
    { what: "a part of the user's address", password: "Zara-Quinn-77" },
    { what: "another word beside the user's name", password: "Smithson-walrus-1", refused: false },
  ])("POST /auth/register: $what, such as $password", async ({ password, refused = true }) => {
    const email = `zara.quinn.${Math.random().toString().slice(2)}@example.com`;
    const answer = await strict
      .httpClient()
      .post("/auth/register", newAccount({ email, name, password }));
    expect(answer).toMatchObject(refused ? invalid("password") : { status: 201 });
  });

  test("POST /auth/reset-password, /user/change-password: refuse the user's own name with digits", async () => {
    const user = await strict.addUser({ name });
    const { post } = await strict.signIn(user);
    const change = { currentPassword: user.password, newPassword: "Smithson-2024" };
    expect(await post("/user/change-password", change)).toMatchObject(invalid("newPassword"));
    const token = await strict.resetTokenFor(user.email);
    expect(await strict.resetPassword(token, "Smithson-2024")).toMatchObject(invalid("password"));
  });
});
