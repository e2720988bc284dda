import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authenticatorOf } from "../support/authenticator.ts";
import { createClock } from "../support/clock.ts";
import type { HttpResponse } from "../support/http-client.ts";
import { hasInfrastructure } from "../support/infrastructure.ts";
import { repetitions } from "../support/repeat.ts";
import { type Account, type Deployment, startDeployment } from "../support/replicas.ts";
import { tally, tallyGuesses, times } from "../support/until.ts";

const NEW = "Brand-new-2";
const wrong = "Wrong-1-guess";
const REFRESHES = Number(process.env.REFRESHES ?? 300);

describe.skipIf(!hasInfrastructure)("Two replicas behind nginx, on PgBouncer and a Redis cluster,", () => {
  let all: Deployment;
  beforeAll(async () => {
    all = await startDeployment();
  });
  afterAll(() => all.close());

  /** Expects that no token of a session works at any replica. */
  async function expectEnded(tokens: { accessToken: string; refreshToken: string }[]): Promise<void> {
    for (const { accessToken, refreshToken } of tokens) {
      expect([await all.profile(accessToken), await all.profile(accessToken)]).toEqual([401, 401]);
      expect((await all.refresh(refreshToken)).status).toBe(401);
    }
  }

  test("return one identical successor to 100 parallel refreshes, and leave one row", async () => {
    for (let round = 0; round < repetitions(2); round++) {
      const account = await all.signIn();
      const answers = await Promise.all(times(100, () => all.refresh(account.refreshToken)));
      expect(tally(answers, (a) => a.status)).toEqual({ 200: 100 });
      expect(new Set(answers.map((a) => a.body.refreshToken)).size).toBe(1);
      expect(new Set(answers.map((a) => a.body.accessToken)).size).toBe(1);
      const rows = await all.sql("select generation, revoked_at from sessions where user_id = $1", [account.id]);
      expect(rows).toEqual([{ generation: 1, revoked_at: null }]);
    }
  });

  const endings: [string, (account: Account) => Promise<{ status: number }>][] = [
    ["a logout", ({ browser, accessToken }) => browser.post("/auth/logout", undefined, accessToken)],
    ["its revocation", async (account) => revoke(await all.signIn(account))],
    ["a change of the password", async (account) => changePassword(await all.signIn(account))],
    ["a reset of the password", reset],
    [
      "the deletion of the account",
      ({ browser, accessToken }) => browser.post("/user/delete-account", {}, accessToken),
    ],
  ];

  const revoke = ({ browser, accessToken }: Account) => browser.delete("/user/sessions", accessToken);
  const changePassword = ({ browser, accessToken, password }: Account) =>
    browser.post("/user/change-password", { currentPassword: password, newPassword: NEW }, accessToken);

  test.each(endings)("leave no session after refreshes that race %s", async (_name, end) => {
    for (let round = 0; round < repetitions(3); round++) {
      const account = await all.signIn();
      const ending = end(account);
      const racers = await Promise.all(times(6, () => all.refresh(account.refreshToken)));
      expect((await ending).status).toBe(200);
      const successors = racers.filter((a) => a.status === 200).map((a) => a.body);
      await expectEnded([account, ...successors]);
      const open = "select id from sessions where id = any($1) and revoked_at is null";
      const id = JSON.parse(atob(account.accessToken.split(".")[1] as string)).sid;
      expect(await all.sql(open, [[id]])).toEqual([]);
    }
  });

  async function reset({ email }: Account) {
    await all.httpClient().post("/auth/forgot-password", { email });
    const { token } = await all.mail.emailTo(email, /Reset/);
    return all.httpClient().post("/auth/reset-password", { token, password: NEW });
  }

  test("evaluate at most five of any number of concurrent guesses", async () => {
    for (let round = 0; round < repetitions(2); round++) {
      const { email } = round % 2 ? { email: `unknown-${round}@example.com` } : await all.addUser();
      const answers = await Promise.all(
        times(50, () => all.httpClient().post("/auth/login", { email, password: wrong })),
      );
      expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 45 });
    }
  });

  test("keep the lock if a success races the fifth failure", async () => {
    for (let round = 0; round < repetitions(5); round++) {
      const user = await all.addUser();
      const guess = (password: string) => all.httpClient().post("/auth/login", { email: user.email, password });
      for (let i = 0; i < 4; i++) await guess(wrong);
      const [right, ...failures] = await Promise.all([
        guess(user.credentials.password),
        ...times(5, () => guess(wrong)),
      ]);
      const [row] = await all.sql<{ locked: boolean }>(
        "select locked_until is not null as locked from attempts where subject = $1 and kind = 'password'",
        [user.email],
      );
      const statuses = tally(failures, (a) => a.status);
      // either the success is first, and five later failures lock; or a failure is first, and the success is refused
      expect(row?.locked).toBe(true);
      expect(right?.status === 200 ? statuses : { 401: 1, 423: 4 }).toEqual(statuses);
      expect((await guess(user.credentials.password)).status).toBe(423);
    }
  });

  test("accept one of 50 parallel uses of each one-time token", async () => {
    const one = (status: number) => ({ 200: 1, [status]: 49 });
    for (let round = 0; round < repetitions(1); round++) {
      const user = await all.addUser();
      const race = async (path: string, body: object, token?: string) => {
        const answers = await Promise.all(times(50, () => all.httpClient().post(path, body, token)));
        return tally(answers, (a) => a.status);
      };
      const { token: proof } = await all.mail.emailTo(user.email);
      expect(await race("/auth/verify-email", { token: proof })).toEqual(one(400));
      await all.httpClient().post("/auth/forgot-password", { email: user.email });
      const { token: resetToken } = await all.mail.emailTo(user.email, /Reset/);
      const { password } = user.credentials;
      expect(await race("/auth/reset-password", { token: resetToken, password })).toEqual(one(400));

      const account = await all.signIn(user);
      const email = `new-${user.email}`;
      await account.browser.post("/user/change-email", { newEmail: email, password }, account.accessToken);
      const { token: change } = await all.mail.emailTo(email);
      expect(await race("/auth/verify-email", { token: change })).toEqual(one(400));

      const { body } = await account.browser.post("/auth/setup-totp", undefined, account.accessToken);
      const factor = authenticatorOf({ clock: createClock() }, body);
      const login = async () => (await all.httpClient().post("/auth/login", { email, password })).body.tempToken;
      const backupCode = factor.backupCodes[0];
      expect(await race("/auth/verify-mfa", { tempToken: await login(), backupCode })).toEqual(one(401));
      const mfaToken = await login();
      expect(await race("/auth/verify-mfa", { tempToken: mfaToken, code: await factor.code() })).toEqual(one(401));
      const step = { password, code: await factor.code(1) }; // without an MFA token, so that only the time step counts
      const { 200: wins } = await race("/auth/backup-codes", step, account.accessToken);
      expect(wins).toBe(1);
    }
  }, 3_600_000);

  test(`leave one row and heap-only updates after ${REFRESHES} refreshes`, async () => {
    const account = await all.signIn();
    const used = async () => {
      const [row] = await all.sql<{ updated: number; hot: number; pages: number }>(
        `select n_tup_upd::int as updated, n_tup_hot_upd::int as hot, (pg_relation_size('sessions') / 8192)::int as pages
         from pg_stat_user_tables where relname = 'sessions'`,
      );
      return row as { updated: number; hot: number; pages: number };
    };
    const before = await used();
    let token = account.refreshToken;
    const refresh = async () => {
      const { status, body } = await all.refresh(token);
      expect(status).toBe(200);
      token = body.refreshToken;
    };
    for (let i = 0; i < REFRESHES; i++) await refresh();
    const rows = await all.sql("select generation from sessions where user_id = $1", [account.id]);
    expect(rows).toEqual([{ generation: REFRESHES }]);
    await expect
      .poll(() => refresh().then(used)) // a busy connection reports its counts earlier
      .toMatchObject({ updated: expect.toSatisfy((updated) => updated >= before.updated + REFRESHES) });
    const after = await used();
    const hot = (after.hot - before.hot) / (after.updated - before.updated);
    expect(hot).toBeGreaterThan(0.95);
    expect(after.pages - before.pages).toBeLessThanOrEqual(4);
  }, 600_000);

  test("keep revoked sessions and locks with an empty Redis, and after SIGKILL", async () => {
    const [out, mine] = [await all.signIn(), await all.signIn()];
    const other = await all.signIn(mine);
    await out.browser.post("/auth/logout", undefined, out.accessToken);
    await mine.browser.delete("/user/sessions", mine.accessToken);
    const victim = await all.addUser();
    const login = async (password: string) =>
      (await all.httpClient().post("/auth/login", { email: victim.email, password })).status;
    for (let i = 0; i < 5; i++) await login(wrong);
    const expectAll = async () => {
      await expectEnded([out, other]);
      expect([await all.profile(mine.accessToken), await login(victim.credentials.password)]).toEqual([200, 423]);
    };
    await expectAll();
    await all.flushRedis();
    await expectAll();
    await all.restart();
    await expectAll();
  });

  test("count each rate limit once, and refuse what is beyond it at every replica", async () => {
    await all.restart({ RATE_LIMITS: "on" });
    const [client, other, answers] = [all.httpClient(), all.httpClient(), [] as HttpResponse[]];
    for (let i = 0; i < 31; i++) answers.push(await client.post("/auth/verify-email", { token: "none" }));
    const left = answers.map(({ headers }) => Number(headers.get("ratelimit-remaining")));
    expect(left).toEqual([...times(30, (i) => 29 - i), 0]);
    expect(answers.at(-1)?.status).toBe(429);
    const others = await Promise.all(times(60, () => other.post("/auth/verify-email", { token: "none" })));
    expect(tally(others, ({ status }) => status)).toEqual({ 400: 30, 429: 30 });
  });
});
