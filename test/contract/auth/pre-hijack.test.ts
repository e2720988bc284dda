// An account that a stranger has made with somebody else's address, and every way in which its
// owner claims it.

import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createKey, keyStatus } from "../../support/api-keys.ts";
import { createAuthenticator } from "../../support/authenticator.ts";
import { googleAccount, startExternalApp } from "../../support/external.ts";
import type { HttpResponse } from "../../support/http/client.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { repetitions, times } from "../../support/tally.ts";

const env = { EMAIL_SIGN_IN: "code", RATE_LIMITS: "off" };
const { app, answerOf, finish, signInBy, prove, identitiesOf } = await startExternalApp(env);
const passkeys = passkeyActions(app);

/** Asks for a code, in the browser of whoever asks. */
const askForCode = (email: string, browser = app.httpClient()) =>
  browser.post("/auth/email-code", { email });

async function codeMailedTo(email: string) {
  const { text = "", token } = await app.mail.emailTo(email, /sign-in code/);
  const [, code = ""] = /Your code is (\d{6})/.exec(text) ?? [];
  return { code, token };
}

/** How the owner of an address claims the account. */
const CLAIMS: { how: string; claim: (email: string) => Promise<HttpResponse> }[] = [
  {
    how: "a sign-in by Google",
    claim: (email) => signInBy(googleAccount({ email, hd: "example.com" })),
  },
  {
    how: "a code by e-mail",
    async claim(email) {
      await askForCode(email);
      const { code } = await codeMailedTo(email);
      return app.httpClient().post("/auth/verify-email-code", { email, code });
    },
  },
  {
    how: "a reset of the password",
    claim: async (email) => app.resetPassword(await app.resetTokenFor(email)),
  },
];

/** An account with everything in it that a stranger can prepare. */
async function prepared() {
  const account = await app.signIn();
  const { user, browser, post, put } = account;
  const { email, credentials } = user;
  const second = await app.signIn(user);
  const { key } = await createKey(account);
  const authenticator = createAuthenticator();
  expect((await passkeys.register(account, authenticator)).status).toBe(201);
  const theirs = googleAccount();
  const proof = await prove(browser, theirs);
  expect((await post("/auth/connect-identity", { identityToken: proof })).status).toBe(201);
  const newEmail = `${randomUUID()}@evil.example`;
  await post("/user/change-email", { newEmail, password: user.password });
  const change = await app.mail.emailTo(newEmail, /Verify/);
  const reset = await app.resetTokenFor(email);
  const totp = app.authenticatorOf((await post("/auth/setup-totp")).body);
  expect((await put("/user/second-factor", { required: true })).status).toBe(200);
  const tempToken = await app.mfaTokenFor(user);
  // what has begun and is finished later
  const registration = createAuthenticator().create(await passkeys.optionsFor(account, "register"));
  const assertion = authenticator.get(await passkeys.signInOptions());
  const secondStep = authenticator.get(await passkeys.signInOptions(tempToken));
  const arrival = await answerOf(browser, theirs);
  const identityToken = await prove(browser, googleAccount());
  await askForCode(email, browser);
  const link = await codeMailedTo(email);
  const { refreshToken } = account;
  /**
   * Everything that a stranger can try, by name. Each answer would open the account, or change it.
   */
  const attempts: Record<string, () => Promise<HttpResponse>> = {
    session: () => account.get("/user/profile"),
    "other session": () => second.get("/user/profile"),
    refresh: () => app.refresh(refreshToken),
    password: () => browser.post("/auth/login", credentials),
    "second step by app": async () => app.verifyMfa(tempToken, { code: await totp.code() }),
    "second step by backup code": () =>
      app.verifyMfa(tempToken, { backupCode: totp.backupCodes[1] }),
    "second step by passkey": () => passkeys.verify(secondStep, tempToken),
    passkey: () => passkeys.signIn(authenticator),
    "passkey in use": () => passkeys.verify(assertion),
    "passkey in the making": () => post("/user/passkeys", { credential: registration }),
    identity: () => finish(browser, arrival),
    "identity to connect": () => post("/auth/connect-identity", { identityToken }),
    "link of a code": () => browser.post("/auth/verify-email-code", { token: link.token }),
    "link of a reset": () => app.resetPassword(reset),
    "link of a new address": () => app.verifyEmail(change.token),
    confirmation: () => post("/auth/confirm", { password: user.password }),
    "new password": () =>
      post("/user/change-password", {
        currentPassword: user.password,
        newPassword: "Evil-pass-99",
      }),
    "new key": () => post("/user/api-keys", { name: "CI", password: user.password }),
  };
  return { user, key, theirs, attempts };
}

/** The account that an answer belongs to; undefined for none. */
const accountIn = ({ body }: HttpResponse): string | undefined => body.user?.id;

/** Expects that an account has only what its owner has brought. */
async function expectClean(user: { id: string; email: string }, theirs: { sub: string }) {
  const [row] = await app.sql<Record<string, unknown>>(
    "select email, role, mfa_secret, second_factor, email_verified_at is not null as verified from users where id = ?",
    [user.id],
  );
  expect(row).toEqual({
    ...{ email: user.email, role: "user", mfa_secret: null },
    ...{ second_factor: false, verified: true },
  });
  const count = async (sql: string) => (await app.sql(sql, [user.id])).length;
  expect(await count("select 1 from passkeys where user_id = ?")).toBe(0);
  expect(await count("select 1 from backup_codes where user_id = ?")).toBe(0);
  expect(await count("select 1 from api_keys where user_id = ? and revoked_at is null")).toBe(0);
  expect((await identitiesOf(user.id)).map(({ subject }) => subject)).not.toContain(theirs.sub);
}

describe("An account that a stranger has registered with somebody else's address", () => {
  test.for(CLAIMS)("belongs only to the owner after $how", async ({ claim }) => {
    const { user, key, theirs, attempts } = await prepared();
    const claimed = await claim(user.email);
    expect(claimed.status).toBe(200);
    await expectClean(user, theirs);
    for (const _replica of [1, 2]) {
      const answers = await Promise.all(
        Object.entries(attempts).map(async ([name, attempt]) => [name, await attempt()] as const),
      );
      for (const [name, answer] of answers) {
        expect(accountIn(answer), name).not.toBe(user.id);
        if (name !== "identity") expect([name, answer.status >= 400]).toEqual([name, true]);
        expect(answer.status, name).toBeLessThan(500);
      }
      expect(await keyStatus(app, key)).toBe(401);
    }
    await expectClean(user, theirs);
    const { accessToken } = claimed.body;
    if (accessToken) expect(await app.profileStatus(accessToken)).toBe(200);
  });

  test.for(CLAIMS)(
    "belongs only to the owner after $how, whatever a stranger does at the same time",
    async ({ claim }) => {
      for (let round = 0; round < repetitions(2); round++) {
        const { user, theirs, attempts } = await prepared();
        const opened = new Set<string>();
        let isClaimed = false;
        const attempt = async (name: string) => {
          const answer = await attempts[name]?.();
          if (answer && accountIn(answer) === user.id) opened.add(answer.body.accessToken);
        };
        // what is mailed to the owner's mailbox, moves the account away or voids the owner's own
        // token is omitted
        const names = Object.keys(attempts).filter((name) => !/^(link|new password)/.test(name));
        const attacks = times(4, async () => {
          while (!isClaimed) for (const name of names) await attempt(name);
        });
        await expect.poll(() => opened.size).toBeGreaterThan(0);
        expect((await claim(user.email)).status).toBe(200);
        isClaimed = true;
        await Promise.all(attacks);
        await expectClean(user, theirs);
        for (const token of opened) expect(await app.profileStatus(token)).toBe(401);
      }
    },
  );
});
