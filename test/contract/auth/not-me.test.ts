// POST /auth/not-me: undoing a sign-in or a registration that the owner of an address did not make.

import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { freshEmail, PASSWORD, type SignedIn, type TestUser } from "../../support/accounts.ts";
import { startSuiteApp } from "../../support/app.ts";
import { createAuthenticator } from "../../support/authenticator.ts";
import { withToken } from "../../support/http/client.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { statusesOf } from "../../support/tally.ts";

const app = await startSuiteApp({ env: { RATE_LIMITS: "off" } });
const passkeys = passkeyActions(app);

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const INVALID = refusal(400, "TOKEN_INVALID");

/** An account whose password a stranger knows, who has signed in on another device. */
async function intrusion() {
  const owner = await app.signIn(await app.addVerifiedUser());
  const stranger = await intrude(owner.user);
  const { token } = await app.mail.emailTo(owner.user.email, /New sign-in/);
  return { owner, stranger, token: token as string };
}

/** Signs in as a stranger on a new device. */
async function intrude({ credentials }: TestUser) {
  const browser = app.httpClient();
  const headers = { "user-agent": FIREFOX };
  const { status, body } = await browser.send("POST", "/auth/login", credentials, headers);
  if (status !== 200) throw new Error(`login answered ${status}`);
  return { browser, ...withToken(browser, body.accessToken) };
}

const disown = (token: unknown, email: string) =>
  app.httpClient().post("/auth/not-me", { token, email });

/** Moves the account of a session to a new address, and returns that. */
async function moveAway({ post }: Pick<SignedIn, "post">): Promise<string> {
  const newEmail = freshEmail();
  await post("/user/change-email", { newEmail, password: PASSWORD });
  const { token } = await app.mail.emailTo(newEmail, /Verify your new/);
  expect((await app.verifyEmail(token)).status).toBe(200);
  return newEmail;
}

/** The token of the e-mail about a sign-in on yet another device. */
async function tokenOfNewDevice(email: string): Promise<string> {
  await app.httpClient().post("/auth/login", { email, password: PASSWORD });
  return (await app.mail.emailTo(email, /New sign-in/)).token as string;
}

const addIdentity = (userId: string, createdAt: Date) =>
  app.sql(
    "insert into identities (id, user_id, provider, issuer, subject, created_at) values (?, ?, 'google', 'https://a.example', ?, ?)",
    [randomUUID(), userId, randomUUID(), createdAt],
  );

const rowsOf = async (table: string, { id }: TestUser) =>
  (await app.sql(`select 1 from ${table} where user_id = ?`, [id])).length;

describe("POST /auth/not-me, with the token of the e-mail about a new device,", () => {
  test("ends sessions and password and removes what was added since; one of twenty concurrent requests succeeds", async () => {
    const owner = await app.signIn(await app.addVerifiedUser());
    const own = createAuthenticator();
    expect((await passkeys.register(owner, own)).status).toBe(201);
    await addIdentity(owner.user.id, app.clock.now());
    app.clock.advance("1m");
    const stranger = await intrude(owner.user);
    const theirs = createAuthenticator();
    expect((await passkeys.register(stranger, theirs)).status).toBe(201);
    await addIdentity(owner.user.id, app.clock.now());
    expect((await stranger.post("/auth/setup-totp")).status).toBe(200);
    const { token } = await app.mail.emailTo(owner.user.email, /New sign-in/);

    const typed = ` ${owner.user.email.toUpperCase()} `;
    expect(await statusesOf(20, () => disown(token, typed))).toEqual({ 200: 1, 400: 19 });

    expect([await owner.profileStatus(), await stranger.profileStatus()]).toEqual([401, 401]);
    expect(await app.login(owner.user.email)).toMatchObject(refusal(401, "INVALID_CREDENTIALS"));
    expect(await passkeys.signIn(theirs)).toMatchObject(refusal(401, "PASSKEY_UNKNOWN"));
    expect([await rowsOf("identities", owner.user), await rowsOf("devices", owner.user)]).toEqual([
      1, 0,
    ]);
    const { body } = await passkeys.signIn(own);
    const profile = (await app.httpClient().get("/user/profile", body.accessToken)).body;
    expect(profile).toMatchObject({ id: owner.user.id, mfaEnabled: false });
    expect(await app.auditOf(owner.user.id, "auth.disowned")).toEqual([
      expect.objectContaining({ actor_id: owner.user.id, outcome: "success" }),
    ]);
    const reset = await app.mail.emailTo(owner.user.email, /Reset/);
    expect((await app.resetPassword(reset.token)).status).toBe(200);
  });

  test("keeps an earlier second factor with its backup codes, and removes a later one", async () => {
    const { user, authenticator } = await app.setUpConfirmedFactor(await app.addVerifiedUser());
    app.clock.advance("1m");
    const tempToken = await app.mfaTokenFor(user);
    const browser = app.httpClient();
    const code = await authenticator.code();
    await browser.post("/auth/verify-mfa", { tempToken, code });
    const { token } = await app.mail.emailTo(user.email, /New sign-in/);
    expect((await disown(token, user.email)).status).toBe(200);
    const reset = await app.mail.emailTo(user.email, /Reset/);
    await app.resetPassword(reset.token, PASSWORD);
    const backupCode = authenticator.backupCodes[0];
    expect((await app.signInBy(user, { backupCode })).status).toBe(200);
  });

  test("removes a required second factor and its backup codes that were set up since", async () => {
    const { owner, stranger, token } = await intrusion();
    await passkeys.register(stranger);
    const { body } = await stranger.put("/user/second-factor", { required: true });
    expect(body.backupCodes).toHaveLength(10);
    expect((await disown(token, owner.user.email)).status).toBe(200);
    expect(await rowsOf("backup_codes", owner.user)).toBe(0);
    const reset = await app.mail.emailTo(owner.user.email, /Reset/);
    await app.resetPassword(reset.token, PASSWORD);
    expect((await app.login(owner.user.email)).body.requiresMfa).toBe(false);
  });

  test("the token of the first reported sign-in is sent again, and its time decides what is removed", async () => {
    const { owner, stranger, token } = await intrusion();
    const theirs = createAuthenticator();
    await passkeys.register(stranger, theirs);
    app.clock.advance("6d");
    await app.httpClient("10.4.4.4").post("/auth/login", owner.user.credentials);
    await expect
      .poll(async () =>
        (await app.mail.emailsTo(owner.user.email))
          .filter(({ subject }) => subject?.startsWith("New sign-in"))
          .map((mail) => mail.token),
      )
      .toEqual([token, token]);
    app.clock.advance("2d"); // more than a week after the first e-mail, but not after the second
    expect((await disown(token, owner.user.email)).status).toBe(200);
    expect((await passkeys.signIn(theirs)).body.code).toBe("PASSKEY_UNKNOWN");
  });

  test("rejects another address and keeps the token, over gRPC too", async () => {
    const { owner, stranger, token } = await intrusion();
    expect(await disown(token, freshEmail())).toMatchObject(invalid("email"));
    expect(await disown(token, "nobody")).toMatchObject(invalid("email"));
    expect(await disown(token, "")).toMatchObject(invalid("email"));
    const { disown: call } = app.grpc(AuthService);
    await expect(call({ token, email: freshEmail() })).rejects.toThrow();
    expect(await stranger.profileStatus()).toBe(200);
    const { message } = await call({ token, email: owner.user.email });
    expect(message).toContain("All sessions have ended");
    expect(await stranger.profileStatus()).toBe(401);
  });

  test("rejects a used token, one after seven days, and tokens of other kinds", async () => {
    const used = await intrusion();
    const { email } = used.owner.user;
    expect((await disown(used.token, email)).status).toBe(200);
    expect(await disown(used.token, email)).toMatchObject(INVALID);
    expect(await disown(await app.resetTokenFor(email), email)).toMatchObject(INVALID);
    const late = await intrusion();
    app.clock.advance("7d");
    expect(await disown(late.token, late.owner.user.email)).toMatchObject(INVALID);
    const other = await intrusion();
    expect(await app.resetPassword(other.token)).toMatchObject(INVALID);
    expect(await app.verifyEmail(other.token)).toMatchObject(INVALID);
    expect((await disown(other.token, other.owner.user.email)).status).toBe(200);
  });

  test("works after the attacker has requested and cancelled the deletion of the account", async () => {
    const { owner, stranger, token } = await intrusion();
    expect((await stranger.post("/user/delete-account")).status).toBe(200);
    const { credentials } = owner.user;
    const { status, body } = await stranger.browser.post("/auth/login", credentials); // a known device: no e-mail
    expect({ status, restored: body.restored }).toEqual({ status: 200, restored: true });
    expect((await disown(token, owner.user.email)).status).toBe(200);
    expect(await withToken(stranger.browser, body.accessToken).profileStatus()).toBe(401);
  });

  test("works after a password reset, which keeps passkeys", async () => {
    const { owner, stranger, token } = await intrusion();
    const theirs = createAuthenticator();
    await passkeys.register(stranger, theirs);
    await app.resetPassword(await app.resetTokenFor(owner.user.email));
    expect((await passkeys.signIn(theirs)).status).toBe(200);
    expect((await disown(token, owner.user.email)).status).toBe(200);
    expect(await passkeys.signIn(theirs)).toMatchObject(refusal(401, "PASSKEY_UNKNOWN"));
  });

  test("restores an address that was changed since, whatever was done with it", async () => {
    const { owner, stranger, token } = await intrusion();
    const { email } = owner.user;
    const first = await moveAway(stranger);
    const atFirst = await tokenOfNewDevice(first);
    const second = await moveAway(stranger);
    expect(await disown(atFirst, first)).toMatchObject(INVALID);
    expect((await disown(await tokenOfNewDevice(second), second)).status).toBe(200);
    const reset = await app.mail.emailTo(second, /Reset/);
    expect((await app.resetPassword(reset.token, PASSWORD)).status).toBe(200);
    const credentials = { email: second, password: PASSWORD };
    const afterReset = await app.signIn({ ...owner.user, credentials });

    expect(await disown(token, second)).toMatchObject(invalid("email"));
    expect(await statusesOf(20, () => disown(token, email))).toEqual({ 200: 1, 400: 19 });
    expect(await afterReset.profileStatus()).toBe(401);
    await app.mail.emailTo(second, /e-mail address was changed/);
    const own = await app.mail.emailTo(email, /Reset/);
    await app.resetPassword(own.token, PASSWORD);
    const { get } = await app.signIn(owner.user);
    expect((await get("/user/profile")).body).toMatchObject({ email, emailVerified: true });
    expect(await app.login(second)).toMatchObject(refusal(401, "INVALID_CREDENTIALS"));
  });

  test("erases an account that a stranger has registered at the former address; one of twenty concurrent requests succeeds", async () => {
    const { owner, stranger, token } = await intrusion();
    const { email } = owner.user;
    await moveAway(stranger);
    const blocking = await app.signIn(await app.addUser({ email }));
    expect(await statusesOf(20, () => disown(token, email))).toEqual({ 200: 1, 400: 19 });
    expect(await blocking.profileStatus()).toBe(401);
    expect(await app.auditOf(blocking.user.id, "auth.disowned")).toHaveLength(1);
    expect(await app.auditOf(blocking.user.id, "user.erased")).toHaveLength(1);
    const own = await app.mail.emailTo(email, /Reset/);
    await app.resetPassword(own.token, PASSWORD);
    expect((await app.login(email)).body.user.id).toBe(owner.user.id);
  });

  test.for([
    { what: "verified", change: "email_verified_at = now()" },
    { what: "of an administrator", change: "role = 'admin'" },
    { what: "suspended", change: "suspended_at = now()" },
    { what: "whose address an administrator has changed", change: "was_verified = true" },
  ])(
    "is 409 and keeps the token while the former address has an account that is $what",
    async ({ change }) => {
      const { owner, stranger, token } = await intrusion();
      const { email } = owner.user;
      const later = await moveAway(stranger);
      const { id } = await app.addUser({ email });
      await app.sql(`update users set ${change} where id = ?`, [id]);
      expect(await disown(token, email)).toMatchObject(refusal(409, "EMAIL_TAKEN"));
      expect((await stranger.get("/user/profile")).body.email).toBe(later);
      await app.sql("delete from users where id = ?", [id]);
      expect((await disown(token, email)).status).toBe(200);
    },
  );

  test("is invalid after the owner has changed the address on an earlier device: somebody else may read its mail", async () => {
    const owner = await app.signIn(await app.addVerifiedUser());
    const { email, credentials } = owner.user;
    app.clock.advance("1m");
    await intrude(owner.user); // the owner's own new browser, for all that is known
    const { token } = await app.mail.emailTo(email, /New sign-in/);
    const later = await moveAway(owner);
    expect(await disown(token, email)).toMatchObject(INVALID);
    expect(await app.auditOf(owner.user.id, "auth.disowned")).toEqual([]);
    const moved = { ...owner.user, credentials: { ...credentials, email: later } };
    expect(await (await app.signIn(moved)).profileStatus()).toBe(200);
  });

  test("stays valid if an attacker has changed the address on the new device, before and after it was used again", async () => {
    const { owner, stranger, token } = await intrusion();
    const { email } = owner.user;
    app.clock.advance("5d");
    const { body } = await stranger.browser.post("/auth/login", owner.user.credentials);
    await moveAway(withToken(stranger.browser, body.accessToken));
    expect((await disown(token, email)).status).toBe(200);
  });

  test("does not open the account to somebody who reads the mail of a former address", async () => {
    const owner = await app.signIn(await app.addVerifiedUser());
    const { email } = owner.user;
    const reset = await app.resetTokenFor(email);
    app.clock.advance("1m");
    await intrude(owner.user);
    await moveAway(owner);
    expect((await app.mail.emailTo(email, /was changed/)).token).toBeUndefined();
    const mails = await app.mail.emailsTo(email);
    for (const mailed of new Set([reset, ...mails.map(({ token }) => token).filter(Boolean)])) {
      expect((await disown(mailed, email)).status).toBe(400);
      expect((await app.resetPassword(mailed)).status).toBe(400);
      expect((await app.verifyEmail(mailed)).status).toBe(400);
    }
    await app.httpClient().post("/auth/forgot-password", { email });
    expect((await app.login(email)).status).toBe(401);
    expect(await owner.profileStatus()).toBe(200);
  });

  test("is invalid once an administrator has changed the address, because somebody else may read its e-mails", async () => {
    const { owner, token } = await intrusion();
    const admin = await app.signInAdmin();
    await admin.put(`/admin/users/${owner.user.id}`, { email: freshEmail() });
    expect(await disown(token, owner.user.email)).toMatchObject(INVALID);
  });

  test("GET and HEAD of the link change nothing", async () => {
    const { owner, stranger, token } = await intrusion();
    for (const method of ["GET", "HEAD"])
      expect((await fetch(`${app.url}/not-me#token=${token}`, { method })).status).toBe(200);
    expect(await stranger.profileStatus()).toBe(200);
    expect((await disown(token, owner.user.email)).status).toBe(200);
  });
});

describe("POST /auth/not-me, with the token of the verification e-mail,", () => {
  /** An account that somebody has registered with another person's address. */
  async function registration(changes: { role?: "admin" } = {}) {
    const user = await app.addUser(changes);
    const mail = await app.mail.emailTo(user.email, /Verify/);
    return { user, mail, token: mail.token as string };
  }

  test("erases an account that was never verified; one of twenty concurrent requests succeeds", async () => {
    const { user, mail, token } = await registration();
    const theirs = await app.signIn(user);
    expect(mail.text).toContain(`http://gatehouse.test/not-me?account#token=${token}`);
    expect(mail.text).toMatch(/Where: 10\.\d+/);
    expect(mail.text).not.toContain(user.name);
    expect(await disown(token, freshEmail())).toMatchObject(invalid("email"));
    expect(await statusesOf(20, () => disown(token, user.email))).toEqual({ 200: 1, 400: 19 });
    expect(await theirs.profileStatus()).toBe(401);
    expect((await app.login(user.email)).status).toBe(401);
    expect(await app.auditOf(user.id, "auth.disowned")).toHaveLength(1);
    expect(await app.auditOf(user.id, "user.erased")).toHaveLength(1);
    expect((await app.addUser({ email: user.email })).id).not.toBe(user.id);
  });

  test.for([
    { what: "of an administrator", change: "role = 'admin'" },
    { what: "that is suspended", change: "suspended_at = now()" },
    { what: "whose address an administrator has changed", change: "was_verified = true" },
  ])("keeps an account $what", async ({ change }) => {
    const { user, token } = await registration();
    await app.sql(`update users set ${change} where id = ?`, [user.id]);
    expect(await disown(token, user.email)).toMatchObject(INVALID);
    const rows = await app.sql("select id from users where id = ?", [user.id]);
    expect(rows).toHaveLength(1);
  });

  test("races with the verification: only one of them happens", async () => {
    for (let round = 0; round < 5; round++) {
      const { user, token } = await registration();
      const [erased, verified] = await Promise.all([
        disown(token, user.email),
        app.verifyEmail(token),
      ]);
      expect([erased.status, verified.status].sort()).toEqual([200, 400]);
      const rows = await app.sql("select id from users where id = ?", [user.id]);
      expect(rows).toHaveLength(verified.status === 200 ? 1 : 0);
    }
  });
});
