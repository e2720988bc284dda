// Random sequences of everything that changes how an account is entered, and of what strangers do
// meanwhile: its owner can always enter it, by what it says, and nobody else ever can.

import { randomUUID } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import type { SimulatedAccount } from "../../../scripts/simulators/sign-in-provider.ts";
import { freshEmail, NEW_PASSWORD, PASSWORD, type TestUser } from "../../support/accounts.ts";
import { type Authenticator, createAuthenticator } from "../../support/authenticator.ts";
import { googleAccount, startExternalApp } from "../../support/external.ts";
import { type HttpResponse, withToken } from "../../support/http/client.ts";
import { passkeyActions } from "../../support/passkeys.ts";

const env = { EMAIL_SIGN_IN: "code", RATE_LIMITS: "off" };
const { app, prove, signInBy } = await startExternalApp(env);
const passkeys = passkeyActions(app);
const admin = await app.signInAdmin();

/** Sequences, and requests of each. `WAYS_IN_SEED` repeats a sequence that has failed. */
const SEQUENCES = Number(process.env.WAYS_IN_SEQUENCES ?? (process.env.TEST_FULL ? 12 : 1));
const STEPS = 30;
const FIRST_SEED = Number(process.env.WAYS_IN_SEED ?? Date.now() % 1_000_000);

/** Random numbers that a seed repeats (mulberry32). */
function randomBy(seed: number) {
  let state = seed;
  return (below: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** What its owner has: the account may know some of it no more. */
type Owned = {
  user: TestUser;
  email: string;
  passwords: string[];
  authenticators: Authenticator[];
  accounts: SimulatedAccount[];
  apps: ReturnType<typeof app.authenticatorOf>[];
  backupCodes: string[];
};

const isIn = ({ status, body }: HttpResponse, id: string) =>
  status === 200 && body.accessToken !== undefined && body.user?.id === id;

/** Completes the second step of an answer, by whatever works. */
async function complete(answer: HttpResponse, owned: Owned): Promise<HttpResponse> {
  const { tempToken } = answer.body;
  if (answer.status !== 200 || !tempToken) return answer;
  for (const authenticator of owned.authenticators) {
    const { body } = await app.httpClient().post("/auth/passkey-options", { tempToken });
    const credential = authenticator.get(body.options);
    const done = await passkeys.verify(credential, tempToken);
    if (done.status === 200) return done;
  }
  for (const each of owned.apps.slice(-2)) {
    app.clock.advance("30s"); // a code serves once
    const done = await app.verifyMfa(tempToken, { code: await each.code() });
    if (done.status === 200) return done;
  }
  for (const backupCode of owned.backupCodes.splice(-2)) {
    const done = await app.verifyMfa(tempToken, { backupCode });
    if (done.status === 200) return done;
  }
  return answer;
}

/**
 * The next e-mail of a kind, which a request causes. An address gets twenty a day, those that
 * strangers ask for included.
 */
async function nextEmail(email: string, subject: RegExp, path: string) {
  const arrived = async () =>
    (await app.mail.emailsTo(email)).filter((each) => subject.test(each.subject ?? ""));
  const queued = `select id from emails where "to" = ? and status = 'queued'`;
  await expect.poll(() => app.sql(queued, [email])).toEqual([]);
  app.clock.advance(BETWEEN_EMAILS);
  const before = (await arrived()).length;
  await app.httpClient().post(path, { email });
  await expect.poll(async () => (await arrived()).length).toBe(before + 1);
  return (await arrived()).at(-1);
}

/** Time before each request for e-mails, so that no limit of e-mails is reached. */
const BETWEEN_EMAILS = "4h";

async function byCode(email: string): Promise<HttpResponse> {
  const mail = await nextEmail(email, /sign-in code/, "/auth/email-code");
  const [, code = ""] = /Your code is (\d{6})/.exec(mail?.text ?? "") ?? [];
  return app.httpClient().post("/auth/verify-email-code", { email, code });
}

/** Sets a new password by a mailed token. */
async function reset(owned: Owned, password: string): Promise<void> {
  const mail = await nextEmail(owned.email, /Reset your/, "/auth/forgot-password");
  const { status } = await app.resetPassword(mail?.token, password);
  if (status !== 200) throw new Error(`reset-password answered ${status}`);
  owned.passwords.push(password);
}

/** Sign-ins by each kind of way that an account lists. */
const ENTRIES = {
  hasPassword: ({ passwords, email }: Owned) =>
    passwords.slice(-1).map((each) => () => app.login(email, each)), // wrong ones would lock the account
  passkeys: ({ authenticators }: Owned) =>
    authenticators.map((each) => () => passkeys.signIn(each)),
  identities: ({ accounts }: Owned) => accounts.map((each) => () => signInBy(each)),
  emailCode: ({ email }: Owned) => [() => byCode(email)],
};
type Way = keyof typeof ENTRIES;

/** Enters an account by one kind of way. Returns nothing if none of that kind opens it. */
async function enterBy(way: Way, owned: Owned) {
  for (const attempt of ENTRIES[way](owned)) {
    const answer = await complete(await attempt(), owned);
    if (isIn(answer, owned.user.id)) return withToken(app.httpClient(), answer.body.accessToken);
  }
  return undefined;
}

/** Enters an account by any way; without one by its mailbox. */
async function enter(owned: Owned) {
  for (const way of ["passkeys", "hasPassword", "identities", "emailCode"] as const) {
    const session = await enterBy(way, owned);
    if (session) return session;
  }
  await reset(owned, NEW_PASSWORD);
  const session = await enterBy("hasPassword", owned);
  if (!session) throw new Error("nothing opens the account, not even a reset of its password");
  return session;
}

type Session = NonNullable<Awaited<ReturnType<typeof enterBy>>>;
type Step = (session: Session, owned: Owned) => Promise<unknown>;

const one = async (session: Session, list: string, index: number) => {
  const { body } = await session.get(list);
  return body.length > 0 ? `${list}/${body[index % body.length].id}` : undefined;
};

const mailed = async (email: string, subject: RegExp) =>
  (await app.mail.emailTo(email, subject)).token as string;

/** Undoes the strange sign-ins of an account, if there were any; the link serves once. */
async function disown({ user, email }: Owned): Promise<void> {
  const [row] = await app.sql<{ id: string }>(
    "select id from one_time_tokens where user_id = ? and kind = 'not-me' and expires_at > ?",
    [user.id, app.clock.now()],
  );
  if (!row) return;
  const queued = `select id from emails where "to" = ? and status in ('queued', 'sending')`;
  await expect.poll(() => app.sql(queued, [email])).toEqual([]);
  const token = await mailed(email, /New sign-in/);
  const use = () => app.httpClient().post("/auth/not-me", { token, email });
  expect((await use()).status).toBe(200);
  expect((await use()).status).toBe(400);
}

/** Every route that changes how an account is entered, some of them at once. */
function stepsOf(random: (below: number) => number): Record<string, Step> {
  const remove =
    (list: string): Step =>
    async (session) => {
      const path = await one(session, list, random(20));
      if (path) await session.delete(path);
    };
  const [removePasskey, removeIdentity] = [remove("/user/passkeys"), remove("/user/identities")];
  const removePassword: Step = (session) => session.delete("/user/password");
  const setFactor =
    (required: boolean): Step =>
    async (session, { backupCodes }) => {
      const { body } = await session.put("/user/second-factor", { required });
      backupCodes.push(...(body.backupCodes ?? []));
    };
  return {
    "add a passkey": async (session, { authenticators }) => {
      const authenticator = createAuthenticator();
      if ((await session.get("/user/passkeys")).body.length > 4) return;
      const { status } = await passkeys.register(session, authenticator);
      if (status === 201) authenticators.push(authenticator);
    },
    "remove a passkey": removePasskey,
    "connect an identity": async (session, { accounts }) => {
      const account = googleAccount();
      const browser = app.httpClient();
      const identityToken = await prove(browser, account);
      const { accessToken } = session;
      const { status } = await browser.post(
        "/auth/connect-identity",
        { identityToken },
        accessToken,
      );
      if (status === 201) accounts.push(account);
    },
    "disconnect an identity": removeIdentity,
    "set a password": async (session, { passwords }) => {
      const newPassword = `Fresh-pass-${random(1_000_000)}`;
      const { status } = await session.put("/user/password", { newPassword });
      if (status === 200) passwords.push(newPassword);
    },
    "change the password": async (session, { passwords }) => {
      const newPassword = `Other-pass-${random(1_000_000)}`;
      const form = { currentPassword: passwords.at(-1), newPassword };
      const { status } = await session.post("/user/change-password", form);
      if (status === 200) passwords.push(newPassword);
    },
    "remove the password": removePassword,
    "set up an authenticator": async (session, { apps, backupCodes, passwords }) => {
      const password = passwords.at(-1);
      const { status, body } = await session.post("/auth/setup-totp", { password });
      if (status !== 200) return;
      apps.push(app.authenticatorOf(body));
      backupCodes.push(...body.backupCodes);
    },
    "turn the authenticator off": async (session, { apps, passwords }) => {
      app.clock.advance("30s");
      const code = await apps.at(-1)?.code();
      await session.post("/auth/disable-totp", { password: passwords.at(-1), code });
    },
    "require a second factor": setFactor(true),
    "require no second factor": setFactor(false),
    "new backup codes": async (session, { backupCodes, passwords }) => {
      const { body } = await session.post("/auth/backup-codes", { password: passwords.at(-1) });
      backupCodes.push(...(body.backupCodes ?? []));
    },
    "a code by e-mail": (_session, { email }) => byCode(email),
    "a reset of the password": (_session, owned) => reset(owned, `Reset-pass-${random(1_000_000)}`),
    "a new address": async (session, owned) => {
      app.clock.advance("25m");
      const newEmail = `${random(2 ** 31)}.${owned.user.email}`;
      const form = { newEmail, password: owned.passwords.at(-1) };
      if ((await session.post("/user/change-email", form)).status !== 200) return;
      const { status } = await app.verifyEmail(await mailed(newEmail, /Verify your new/));
      if (status === 200) owned.email = newEmail;
    },
    "confirm by password": async (session, owned) => {
      const password = owned.passwords.at(-1);
      app.clock.advance("30s");
      const code = await owned.apps.at(-1)?.code();
      const { status } = await session.post("/auth/confirm", { password });
      if (status === 400) await session.post("/auth/confirm", { password, code });
    },
    "confirm by passkey": async (session, { authenticators }) => {
      const authenticator = authenticators.at(-1);
      if (!authenticator) return;
      const passkey = authenticator.get(await passkeys.optionsFor(session, "confirm"));
      await session.post("/auth/confirm", { passkey });
    },
    "confirm by an identity": async ({ accessToken }, { accounts, backupCodes }) => {
      const account = accounts.at(-1);
      if (!account) return;
      const browser = app.httpClient();
      const identityToken = await prove(browser, account);
      const proof = { identityToken };
      const { status } = await browser.post("/auth/confirm", proof, accessToken);
      const backupCode = status === 400 ? backupCodes.pop() : undefined;
      if (backupCode) await browser.post("/auth/confirm", { ...proof, backupCode }, accessToken);
    },
    suspension: async (_session, owned) => {
      const { put } = await asAdmin();
      const path = `/admin/users/${owned.user.id}`;
      expect((await put(path, { suspended: true })).status).toBe(200);
      for (const way of Object.keys(ENTRIES) as Way[])
        expect([way, await enterBy(way, owned)]).toEqual([way, undefined]);
      const reinstating = await asAdmin(); // the clock has moved
      expect((await reinstating.put(path, { suspended: false })).status).toBe(200);
    },
    impersonation: async (_session, { user }) => {
      const { post } = await asAdmin();
      const { status, body } = await post(`/admin/impersonate/${user.id}`, {});
      expect(status).toBe(200);
      const admin = withToken(app.httpClient(), body.accessToken);
      const attempts = {
        "a passkey": admin.post("/user/passkeys/options", { purpose: "register" }),
        "a password": admin.put("/user/password", { newPassword: "Evil-pass-99" }),
        "no password": admin.delete("/user/password"),
        "a second factor": admin.put("/user/second-factor", { required: true }),
        "no identity": admin.delete(`/user/identities/${user.id}`),
        "no passkey": admin.delete(`/user/passkeys/${user.id}`),
        "no device": admin.delete(`/user/devices/${user.id}`),
        "another address": admin.post("/user/change-email", { newEmail: "evil@evil.example" }),
        "a confirmation": admin.post("/auth/confirm", { password: PASSWORD }),
      };
      for (const [what, attempt] of Object.entries(attempts))
        expect([what, (await attempt).status]).toEqual([what, 403]);
      await admin.post("/auth/logout", {});
    },
    "a stranger with the address at providers": async (_session, owned) => {
      const account = { sub: randomUUID(), email: owned.email, email_verified: true, name: "Eve" };
      const isStranger = async (answer: HttpResponse) =>
        expect(isIn(answer, owned.user.id)).toBe(false);
      await isStranger(await signInBy(account, { provider: "microsoft" }));
      await isStranger(await signInBy({ ...account, email_verified: false }));
      const { body } = await signInBy(account, { provider: "microsoft", purpose: "prove" });
      const { user, browser, accessToken } = await app.signIn();
      const connected = await browser.post("/auth/connect-identity", body, accessToken);
      expect([connected.status, connected.body.code]).toEqual([401, "EXTERNAL_FAILED"]); // of another browser
      expect(user.id).not.toBe(owned.user.id);
    },
    "a stranger who guesses": async (_session, { user, email }) => {
      app.clock.advance(BETWEEN_EMAILS);
      await app.lock(email);
      for (const path of ["/auth/email-code", "/auth/forgot-password"])
        await app.httpClient().post(path, { email });
      for (const code of ["000000", "111111", "222222"]) {
        const answer = await app.httpClient().post("/auth/verify-email-code", { email, code });
        expect(isIn(answer, user.id)).toBe(false);
      }
      app.clock.advance("20m"); // locks have ended
    },
    "a thief, and it wasn't me": async (_session, owned) => {
      const thief = await enterBy("hasPassword", owned);
      if (!thief) return;
      const [authenticator, account] = [createAuthenticator(), googleAccount()];
      await passkeys.register(thief, authenticator);
      const browser = app.httpClient();
      const identityToken = await prove(browser, account);
      await browser.post("/auth/connect-identity", { identityToken }, thief.accessToken);
      await disown(owned);
      expect(await thief.profileStatus()).toBe(401);
      expect(isIn(await passkeys.signIn(authenticator), owned.user.id)).toBe(false);
      expect(isIn(await signInBy(account), owned.user.id)).toBe(false);
    },
    "forget the devices": async (session) => {
      for (const { id } of (await session.get("/user/devices")).body)
        await session.delete(`/user/devices/${id}`);
    },
    "it wasn't me": (_session, owned) => disown(owned),
    "a request for deletion": (session) => session.post("/user/delete-account", {}),
    "access reset by an administrator": (_session, { user }) =>
      asAdmin().then(({ post }) => post(`/admin/users/${user.id}/reset-access`)),
    "second factor ended by an administrator": (_session, { user }) =>
      asAdmin().then(({ put }) => put(`/admin/users/${user.id}`, { mfaEnabled: false })),
    [UNVERIFIED]: (_session, { user }) =>
      asAdmin().then(({ put }) => put(`/admin/users/${user.id}`, { emailVerified: false })),
    "an hour": async () => app.clock.advance("1h"),
    "passkey and password at once": (session, owned) =>
      Promise.all([removePasskey(session, owned), removePassword(session, owned)]),
    "passkey and password at once, over REST and gRPC": (session, owned) =>
      Promise.all([
        removePasskey(session, owned),
        app
          .grpc(UserService)
          .removePassword({}, session)
          .catch(() => undefined),
      ]),
    "identity, passkey and password at once": (session, owned) =>
      Promise.all([
        removeIdentity(session, owned),
        removePasskey(session, owned),
        removePassword(session, owned),
      ]),
    "the requirement and a passkey at once": (session, owned) =>
      Promise.all([setFactor(true)(session, owned), removePasskey(session, owned)]),
  };
}

/** A new account, and what its owner has of it. */
async function newAccount(kind: string | undefined): Promise<Owned> {
  const nothing = { passwords: [], authenticators: [], accounts: [], apps: [], backupCodes: [] };
  if (kind === "invited") {
    const { post } = await asAdmin();
    const invitation = { email: freshEmail(), name: "Ann Example" };
    const { body } = await post("/admin/users", invitation);
    const { email, id } = body.user;
    const user = { ...body.user, password: "", credentials: { email, password: "" } };
    expect((await app.login(email)).status).toBe(401);
    return { ...nothing, user: { ...user, id }, email };
  }
  const user = kind === "verified" ? await app.addVerifiedUser() : await app.addUser();
  return { ...nothing, user, email: user.email, passwords: [PASSWORD] };
}

/** A change after which codes do not count as a way in, although they work. */
const UNVERIFIED = "address unverified by an administrator";

/** The administrator, who has just signed in. */
const asAdmin = () => app.signIn(admin.user);

const counted: Record<string, number> = {};
afterAll(() => process.stdout.write(`${JSON.stringify(counted)}\n`));

test.for(Array.from({ length: SEQUENCES }, (_, i) => ({ seed: FIRST_SEED + i })))(
  "Ways in: after each of 30 random changes the owner has a way in, every listed way works, and no stranger gets in (seed $seed)",
  async ({ seed }) => {
    const random = randomBy(seed);
    const steps = Object.entries(stepsOf(random));
    const owned = await newAccount(["verified", "unverified", "invited"][random(3)]);
    const taken: string[] = [];
    let session = await enter(owned);
    for (let i = 0; i < STEPS; i++) {
      const [name, step] = steps[random(steps.length)] as (typeof steps)[number];
      taken.push(name);
      counted[name] = (counted[name] ?? 0) + 1;
      await step(session, owned);
      if ((await session.get("/user/sign-in-methods")).status !== 200) session = await enter(owned);
      const { body } = await session.get("/user/sign-in-methods");
      const story = `seed ${seed}: ${taken.join(", ")}`;
      const { hasPassword, emailCode, secondFactorRequired } = body;
      const ways = Number(hasPassword) + body.passkeys + body.identities + Number(emailCode);
      if (ways === 0 && taken.includes(UNVERIFIED)) session = await enter(owned);
      else expect(ways, story).toBeGreaterThan(0);
      const { mfaEnabled } = (await session.get("/user/profile")).body;
      if (secondFactorRequired) expect(mfaEnabled || body.passkeys > 0, story).toBe(true);
    }
    const { body } = await session.get("/user/sign-in-methods");
    for (const way of Object.keys(ENTRIES) as Way[])
      if (body[way]) {
        app.clock.advance("20m"); // wrong guesses of before may have locked something
        expect(await enterBy(way, owned), `${way}: seed ${seed}: ${taken}`).toBeDefined();
      }
  },
);
