import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { freshEmail, PASSWORD, type SignedIn } from "../support/accounts.ts";
import { conversationOf, startSuiteProvider } from "../support/ai/calls.ts";
import { type HttpResponse, withToken } from "../support/http/client.ts";
import { runScript } from "../support/processes/processes.ts";
import {
  type Deployment,
  hasInfrastructure,
  startDeployment,
} from "../support/processes/replicas.ts";
import { describeIf, forSuite } from "../support/suites.ts";
import { repetitions, tally, times } from "../support/tally.ts";

const wrong = "Wrong-1-guess";
const REFRESHES = repetitions(100);
const AT_ONCE = 32;

/** Further races run on replicas in one process: see `some` in vitest.config.ts. */
describeIf(
  hasInfrastructure,
  "Two replicas behind nginx, on PgBouncer and a Redis cluster,",
  async () => {
    const provider = await startSuiteProvider();
    const all = await forSuite(startDeployment(provider.env));

    /** Expects that no token of a session works at any replica. */
    async function expectEnded(
      tokens: { accessToken: string; refreshToken: string }[],
    ): Promise<void> {
      for (const { accessToken, refreshToken } of tokens) {
        expect([await all.profile(accessToken), await all.profile(accessToken)]).toEqual([
          401, 401,
        ]);
        expect((await all.refresh(refreshToken)).status).toBe(401);
      }
    }

    test("keep the lock if a success races the fifth failure", async () => {
      for (let round = 0; round < repetitions(5); round++) {
        const user = await all.addUser();
        const guess = (password: string) =>
          all.httpClient().post("/auth/login", { email: user.email, password });
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
        // either the success is first, and five later failures lock; or a failure is first, and the
        // success is refused
        expect(row?.locked).toBe(true);
        expect(right?.status === 200 ? statuses : { 401: 1, 423: 4 }).toEqual(statuses);
        expect((await guess(user.credentials.password)).status).toBe(423);
      }
    });

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
      const rows = await all.sql("select generation from sessions where user_id = $1", [
        account.user.id,
      ]);
      expect(rows).toEqual([{ generation: REFRESHES }]);
      await expect
        .poll(() => refresh().then(used)) // a busy connection reports its counts earlier
        .toMatchObject({
          updated: expect.toSatisfy((updated) => updated >= before.updated + REFRESHES),
        });
      const after = await used();
      const hot = (after.hot - before.hot) / (after.updated - before.updated);
      expect(hot).toBeGreaterThan(0.95);
      expect(after.pages - before.pages).toBeLessThanOrEqual(4);
    }, 600_000);

    test("keep revoked sessions and locks with an empty Redis, and after SIGKILL", async () => {
      const [out, mine] = [await all.signIn(), await all.signIn()];
      const other = await all.signIn(mine.user);
      await out.post("/auth/logout");
      await mine.delete("/user/sessions");
      const victim = await all.addUser();
      const login = async (password: string) =>
        (await all.httpClient().post("/auth/login", { email: victim.email, password })).status;
      for (let i = 0; i < 5; i++) await login(wrong);
      const expectAll = async () => {
        await expectEnded([out, other]);
        expect([
          await all.profile(mine.accessToken),
          await login(victim.credentials.password),
        ]).toEqual([200, 423]);
      };
      await expectAll();
      await all.flushRedis();
      await expectAll();
      await all.restart();
      await expectAll();
    });

    test("run every operation concurrently on the same few users without an internal error", async () => {
      await all.restart({ LOCKOUT_THRESHOLD: "1000" }); // so that the users can sign in again
      const admin = await all.signIn();
      await all.sql("update users set role = 'admin' where id = $1", [admin.user.id]);
      const accounts = await Promise.all(times(2, () => all.signIn()));
      const answers: HttpResponse[] = [];
      let left = repetitions(8) * AT_ONCE;
      await Promise.all(
        times(AT_ONCE, async () => {
          while (left-- > 0) answers.push(await any(operations)(all, any(accounts), admin));
        }),
      );
      const failed = answers
        .filter(({ status }) => status >= 500)
        .map(({ status, body }) => [status, body]);
      expect(failed).toEqual([]);
      expect(tally(answers, ({ status }) => status)[200]).toBeGreaterThan(answers.length / 3);
      const [stat] = await all.sql(
        "select deadlocks::int from pg_stat_database where datname = current_database()",
      );
      expect(stat).toEqual({ deadlocks: 0 });
      const env = { DATABASE_URL: all.databaseUrl, SECRET_KEY: all.secretKey };
      expect((await runScript("audit-verify", [], env)).out).toContain("The audit log is intact");
    });
  },
);

type Request = (all: Deployment, account: SignedIn, admin: SignedIn) => Promise<HttpResponse>;

/** An operation of a user, who signs in again if the session has ended. */
const own =
  (operation: (account: SignedIn) => Promise<HttpResponse>): Request =>
  async (_all, account) => {
    const answer = await operation(account);
    if (answer.status !== 401) return answer;
    const again = await account.browser.post("/auth/login", account.user.credentials);
    if (again.status === 200)
      Object.assign(account, withToken(account.browser, again.body.accessToken));
    return again;
  };

const administer =
  (operation: (admin: SignedIn, id: string) => Promise<HttpResponse>): Request =>
  (_all, { user }, admin) =>
    operation(admin, user.id);

const operations: Request[] = [
  own(({ get }) => get("/user/export")),
  own(({ put }) => put("/user/profile", { name: `Ann ${randomInt(9)}` })),
  own(({ browser }) => browser.post("/auth/refresh")),
  own(({ post }) => post("/auth/logout")),
  own(({ post }) => post("/auth/setup-totp", { password: PASSWORD })),
  own(({ post }) => post("/user/delete-account", {})),
  own(({ post }) => post("/user/change-email", { newEmail: freshEmail(), password: PASSWORD })),
  own((account) => account.delete("/user/sessions")),
  own(({ post }) => post("/ai/chat", conversationOf("Hello!"))),
  (all, { user }) => all.httpClient().post("/auth/login", user.credentials),
  (all, { user }) => all.httpClient().post("/auth/login", { email: user.email, password: wrong }),
  (all, { user }) => all.httpClient().post("/auth/forgot-password", { email: user.email }),
  (all, { user }) => all.httpClient().post("/auth/resend-verification", { email: user.email }),
  administer(({ post }, id) => post(`/admin/impersonate/${id}`, {})),
  administer((admin, id) => admin.delete(`/admin/users/${id}/sessions`)),
  administer(({ put }, id) => put(`/admin/users/${id}`, { name: "Bea" })),
  administer(({ put }, id) => put(`/admin/users/${id}`, { locked: false })),
  administer(({ get }) => get("/admin/audit-logs?limit=100")),
];

const any = <T>(among: readonly T[]): T => among[randomInt(among.length)] as T;
