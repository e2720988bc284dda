// How many e-mails strangers can send to an address, and that its owner gets what the owner needs.

import { randomUUID } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { freshEmail, NEW_PASSWORD } from "../../support/accounts.ts";
import { createKey } from "../../support/api-keys.ts";
import { startSuiteApp } from "../../support/app.ts";
import { refusal } from "../../support/http/responses.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { statusesOf, times } from "../../support/tally.ts";

const app = await startSuiteApp({ env: { EMAIL_SIGN_IN: "code", RATE_LIMITS: "off" } });
const passkeys = passkeyActions(app);
const grpc = app.grpc(AuthService);
const REQUESTED = ["verify-email", "change-email", "reset-password", "email-code"];

type Sent = { template: string };
/** The e-mails to an address in one of its spellings, oldest first. */
const sentTo = (...addresses: string[]) =>
  app.sql<Sent>(
    `select template from emails where lower("to") in (${addresses.map(() => "?")}) order by id`,
    addresses.map((each) => each.toLowerCase()),
  );
const requestedOf = (sent: Sent[]) => sent.filter(({ template }) => REQUESTED.includes(template));
const askFor = (path: string, email: string) => app.httpClient().post(path, { email });
const RESET = "/auth/forgot-password";
const CODE = "/auth/email-code";

/** Requests an address by another account. */
async function changeTo(newEmail: string) {
  const { post, user } = await app.signIn();
  return post("/user/change-email", { newEmail, password: user.password });
}

/** Uses up what strangers may send to an address within an hour. */
async function useUp(email: string) {
  for (let i = 0; i < 8; i++) await askFor(CODE, email);
  for (let i = 0; i < 3; i++) await askFor(RESET, email);
}

describe("E-mails that anybody can request", () => {
  test("are limited to six an hour and twenty a day per address, for fifty concurrent callers of all routes, over gRPC too", async () => {
    const { email } = await app.addVerifiedUser();
    const ask = (i: number): Promise<unknown> =>
      i % 5 === 0
        ? grpc.forgotPassword({ email })
        : i % 5 === 1
          ? grpc.requestEmailCode({ email })
          : askFor(i % 2 ? RESET : CODE, email.toUpperCase());
    const inDay = async () => requestedOf(await sentTo(email)).length;
    await Promise.all(times(50, ask));
    expect(await inDay()).toBe(6);
    for (let hours = 0; hours < 8; hours++) {
      app.clock.advance("61m");
      const before = await inDay();
      await Promise.all(times(20, () => askFor(CODE, email)));
      expect((await inDay()) - before).toBeLessThanOrEqual(5);
    }
    expect(await inDay()).toBe(20);
    app.clock.advance("24h");
    await askFor(CODE, email);
    expect(await inDay()).toBe(21);
  });

  test("are counted together for all accounts that request an address, in all its spellings", async () => {
    const name = randomUUID();
    const spellings = [`${name}@bücher.example`, `${name.toUpperCase()}@xn--bcher-kva.example`];
    const answers = await Promise.all(times(10, (i) => changeTo(spellings[i % 2] as string)));
    expect(answers.map(({ status }) => status)).toEqual(times(10, () => 200));
    expect(requestedOf(await sentTo(...spellings))).toHaveLength(6);
  });

  test("include the first e-mail of an account, which is always sent", async () => {
    const email = freshEmail();
    await Promise.all(times(10, () => changeTo(email)));
    await app.addUser({ email });
    await askFor(CODE, email);
    const sent = (await sentTo(email)).map(({ template }) => template);
    expect(sent).toEqual([...times(6, () => "change-email"), "verify-email"]);
  });

  test("do not lock the owner out: a reset is mailed unless a mailed one is still valid", async () => {
    const user = await app.addVerifiedUser();
    await useUp(user.email);
    const first = await app.mail.emailTo(user.email, /Reset/);
    expect((await app.resetPassword(first.token)).status).toBe(200);
    const resets = async () =>
      (await sentTo(user.email)).filter(({ template }) => template === "reset-password").length;
    const before = await resets();
    expect(await statusesOf(20, () => askFor(RESET, user.email))).toEqual({ 200: 20 });
    expect(await resets()).toBe(before + 1);
    await expect
      .poll(async () => (await app.mail.emailTo(user.email, /Reset/)).token)
      .not.toBe(first.token);
    const { token } = await app.mail.emailTo(user.email, /Reset/);
    expect((await app.resetPassword(token, NEW_PASSWORD)).status).toBe(200);
    expect((await app.login(user.email, NEW_PASSWORD)).status).toBe(200);
  });

  test("leave the owner of an address a working link, whatever is done in an account that a stranger has registered with it", async () => {
    const { user, post, put, delete: remove } = await app.signIn();
    const { email } = user;
    await passkeys.register({ post, put });
    let { password } = user;
    for (let i = 0; i < 8; i++) {
      await askFor(RESET, email);
      const newPassword = `Evil-pass-${i}`;
      const change = { currentPassword: password, newPassword };
      expect((await post("/user/change-password", change)).status).toBe(200);
      password = newPassword;
    }
    await askFor(RESET, email);
    expect((await remove("/user/password")).status).toBe(200);
    expect((await put("/user/password", { newPassword: NEW_PASSWORD })).status).toBe(200);
    await askFor(RESET, email);
    expect((await post("/user/delete-account", {})).status).toBe(200);
    expect(requestedOf(await sentTo(email))).toHaveLength(6);
    const { token } = await app.mail.emailTo(email, /Reset/);
    expect((await app.resetPassword(token)).status).toBe(200);
    expect((await app.login(email, NEW_PASSWORD)).status).toBe(200);
  });

  test("leave the owner of an address the link that deletes an account, though a stranger requests its deletion", async () => {
    const { user, post } = await app.signIn();
    const { token } = await app.mail.emailTo(user.email, /Verify/);
    expect((await post("/user/delete-account", {})).status).toBe(200);
    expect((await app.login(user.email)).status).toBe(200);
    const disowned = await app.httpClient().post("/auth/not-me", { token, email: user.email });
    expect(disowned.status).toBe(200);
    expect((await app.login(user.email)).status).toBe(401);
  });

  test("do not block a code for a browser that has signed in to the account", async () => {
    const { browser, user } = await app.signIn(await app.addVerifiedUser());
    await useUp(user.email);
    app.clock.advance("11m"); // the codes have expired
    const codes = async () =>
      (await sentTo(user.email)).filter(({ template }) => template === "email-code").length;
    const before = await codes();
    await askFor(CODE, user.email);
    expect(await codes()).toBe(before);
    expect((await browser.post(CODE, { email: user.email })).status).toBe(200);
    expect(await codes()).toBe(before + 1);
    for (let i = 0; i < 20; i++) await browser.post(CODE, { email: user.email });
    expect(await codes()).toBeLessThanOrEqual(10);
  });

  test("do not block the e-mail of an administrator's reset", async () => {
    const user = await app.addVerifiedUser();
    await useUp(user.email);
    const held = await app.mail.emailTo(user.email, /Reset/);
    const { post } = await app.signInAdmin();
    expect((await post(`/admin/users/${user.id}/reset-access`)).status).toBe(200);
    await expect
      .poll(async () => (await app.mail.emailTo(user.email, /Reset/)).token)
      .not.toBe(held.token);
    const { token } = await app.mail.emailTo(user.email, /Reset/);
    expect((await app.resetPassword(token)).status).toBe(200);
  });
});

describe("Notices", () => {
  test("to an unverified address are limited to five an hour and twenty a day, whatever is done with the account", async () => {
    const { user } = await app.signIn();
    const noticesOf = async () =>
      (await sentTo(user.email)).filter(({ template }) => !REQUESTED.includes(template)).length;
    for (let hours = 1; hours <= 6; hours++) {
      const account = await app.signIn(user);
      const { apiKey } = await createKey(account);
      await account.delete(`/user/api-keys/${apiKey.id}`);
      await createKey(account);
      await passkeys.register(account);
      await passkeys.register(account);
      await account.post("/auth/setup-totp", { password: user.password });
      await app.sql("update users set mfa_secret = null where id = ?", [user.id]);
      for (let i = 0; i < 3; i++) await app.signIn(user);
      expect(await noticesOf()).toBe(Math.min(hours * 5, 20));
      app.clock.advance("61m");
    }
  });

  test("to a verified address have no such limit, because a thief could use it up first", async () => {
    const account = await app.signIn(await app.addVerifiedUser());
    for (let i = 0; i < 4; i++) await passkeys.register(account);
    for (let i = 0; i < 4; i++) await createKey(account);
    const sent = (await sentTo(account.user.email)).map(({ template }) => template);
    expect(sent.filter((template) => template === "passkey-added")).toHaveLength(4);
    expect(sent.filter((template) => template === "api-key-created")).toHaveLength(4);
  });
});

describe("One client address", async () => {
  const limited = await startSuiteApp({ env: { EMAIL_SIGN_IN: "code" } });

  test("can request at most sixty e-mails an hour over all routes, whatever the recipients", async () => {
    const browser = limited.httpClient();
    const account = await limited.signIn();
    const paths = [RESET, CODE, "/auth/resend-verification"];
    for (let i = 0; i < 59; i++) {
      const { status } = await browser.post(paths[i % 3] as string, { email: freshEmail() });
      expect([i, status]).toEqual([i, 200]);
    }
    const newAccount = {
      email: freshEmail(),
      password: NEW_PASSWORD,
      name: "Ann",
      acceptTerms: true,
    };
    expect((await browser.post("/auth/register", newAccount)).status).toBe(201);
    for (const path of paths)
      expect(await browser.post(path, { email: freshEmail() })).toMatchObject(
        refusal(429, "RATE_LIMITED"),
      );
    const change = { newEmail: freshEmail(), password: account.user.password };
    expect(await browser.post("/user/change-email", change, account.accessToken)).toMatchObject(
      refusal(429, "RATE_LIMITED"),
    );
    expect((await account.post("/user/change-email", change)).status).toBe(200);
    const client = limited.grpc(AuthService);
    const from = { headers: { "x-forwarded-for": browser.address } };
    await expect(client.forgotPassword({ email: freshEmail() }, from)).rejects.toMatchObject({
      code: Code.ResourceExhausted,
    });
    limited.clock.advance("61m");
    expect((await browser.post(RESET, { email: freshEmail() })).status).toBe(200);
  });
});
