import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { decodeProtectedHeader } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PREFIX } from "../../scripts/simulators/script.ts";
import { MIGRATIONS } from "../../services/store/schema.ts";
import {
  accountsAt,
  createAccounts,
  NEW_PASSWORD,
  newAccount,
  type SignedIn,
} from "../support/accounts.ts";
import { startSuiteProvider } from "../support/ai/calls.ts";
import { createDatabase, runSql } from "../support/database/databases.ts";
import { createHttpClient } from "../support/http/client.ts";
import { smtpMailbox } from "../support/mail/mailbox.ts";
import { runScript, sharedVariables, startProcess } from "../support/processes/processes.ts";
import {
  type Deployment,
  hasInfrastructure,
  startDeployment,
} from "../support/processes/replicas.ts";
import { forTest } from "../support/suites.ts";
import { tally } from "../support/tally.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";
import { openStreams, startLoad } from "./load.ts";

const USERS = Number(process.env.ROLLING_USERS ?? 4);
const GRACE_MS = 1_500;
const LIMIT_MS = 240_000 + USERS * 3_000;
const CURRENT = process.cwd();

const provider = await startSuiteProvider();

describe.skipIf(!hasInfrastructure)("Rolling upgrade under load", { timeout: LIMIT_MS }, () => {
  const previous = unpackReleaseBefore(MIGRATIONS.at(-1)?.name);
  let all: Deployment;
  beforeAll(async () => {
    // many users make a replacement slow: the silent streams have to outlast it
    const settings = {
      ...provider.env,
      AI_STREAMS_PER_USER: "99",
      SHUTDOWN_TIMEOUT: `${GRACE_MS}ms`,
      AI_IDLE_TIMEOUT: "10m",
    };
    all = await startDeployment(settings, previous);
  });
  afterAll(() => all?.close());

  const migrations = async () =>
    Number((await all.sql<{ n: string }>("select count(*) n from mikro_orm_migrations"))[0]?.n);

  /** Signs in the users one by one: more at once than may wait get 503. */
  async function signIn(users: SignedIn[] = []): Promise<SignedIn[]> {
    while (users.length < USERS) users.push(await all.signIn());
    return users;
  }

  test.each([
    ["to this release", CURRENT],
    ["one release back, on the new schema", previous],
  ])(
    "replaces every replica %s: every request succeeds in the end, no session ends, no stream ends early",
    async (_way, release) => {
      const before = await migrations();
      const users = await signIn();
      const streams = await openStreams(all, users[0] as (typeof users)[0], 4); // two at each replica
      const load = startLoad(all, users, release === CURRENT ? "1" : undefined);
      const begunAt = performance.now();
      for (const i of [0, 1] as const) expect(await all.replace(i, release)).toEqual([0, 0]);
      const ends = await Promise.all(streams.map(({ ended }) => ended));
      expect(tally(await load.stop(), (f) => f)).toEqual({});
      expect(load.counts.requests).toBeGreaterThan(Math.min(USERS * 20, 2_000)); // what two cores serve meanwhile, by any number
      process.stdout.write(
        `${JSON.stringify(load.counts)} in ${Math.round(performance.now() - begunAt)} ms\n`,
      );
      for (const { at, text, error } of ends) {
        expect(at - begunAt).toBeGreaterThan(GRACE_MS - 50);
        expect([text, error]).toEqual([PREFIX, expect.stringMatching(/try again/)]);
      }
      if (release === CURRENT && previous !== CURRENT)
        expect(await migrations()).toBeGreaterThan(before);
      else expect(await migrations()).toBe(before);
    },
  );

  test("replaces SECRET_KEY and the signing key: every request succeeds in the end, and no session ends", async () => {
    const [old, next] = [all.secretKey, randomBytes(32).toString("base64")];
    const load = startLoad(all, await signIn(), "1");
    const rotation = { DATABASE_URL: all.databaseUrl, SECRET_KEY: old };
    expect(await runScript("admin", ["rotate-keys"], rotation)).toMatchObject({ code: 0 });
    await all.sql("update signing_keys set active_at = now() where active_at > now()"); // not in an hour
    const query = "select distinct split_part(private_key, '.', 1) as prefix from signing_keys";
    const prefixes = new Set<string | undefined>();
    for (const SECRET_KEY of [`${old},${next}`, `${next},${old}`, next]) {
      for (const i of [0, 1] as const)
        expect(await all.replace(i, CURRENT, { SECRET_KEY })).toEqual([0, 0]);
      if (SECRET_KEY === next) break;
      const isDone = async () => {
        const [first, other] = await all.sql<{ prefix: string }>(query);
        return !other && !prefixes.has(first?.prefix) && prefixes.add(first?.prefix);
      };
      await until("one key to encrypt every secret", isDone, 90_000); // a job that fails is repeated after a minute
    }
    expect(tally(await load.stop(), (f) => f)).toEqual({});
    expect(load.counts.requests).toBeGreaterThan(USERS * 20);
    const [, added] = await all.sql<{ kid: string }>(
      "select kid from signing_keys order by active_at",
    );
    expect(decodeProtectedHeader((await all.signIn()).accessToken).kid).toBe(added?.kid);
  });
});

/** Texts that a release might take for the password of an account that has none. */
const TEXTS = [
  "no account has this password", // what the first releases compared with for unknown addresses
  ...["null", "undefined", "false", "0", NEW_PASSWORD],
];

describe.skipIf(!process.env.TEST_SERVERS)("Rolling upgrade: accounts without a password", () => {
  const release = unpackReleaseBefore("Migration20261128000600_ways_in");

  test.skipIf(release === CURRENT)(
    "a process of an earlier release refuses every password, and a reset there works here",
    async () => {
      const mail = await forTest(smtpMailbox());
      const databaseUrl = await createDatabase();
      const settings = {
        ...sharedVariables(),
        DATABASE_URL: databaseUrl,
        SMTP_URL: mail.url,
        RATE_LIMITS: "off",
      };
      const old = await forTest(startProcess(settings, join(release, "gateway/main.ts")));
      const withPassword = await accountsAt(old.url).addUser();
      const current = await forTest(startProcess({ ...settings, EMAIL_SIGN_IN: "code" }));
      const at = (url: string) => createHttpClient(url, undefined, url === current.url);
      const login = (url: string, email: string, password: string) =>
        at(url).post("/auth/login", { email, password });

      const { password: _, ...account } = newAccount();
      const registered = await at(current.url).post("/auth/register", account);
      expect(registered.status).toBe(201);
      const given = createAccounts({ httpClient: () => at(current.url), mail });
      const removed = await given.signIn(await given.addVerifiedUser());
      expect((await removed.delete("/user/password")).status).toBe(200);

      const hashes = await runSql<{ hash: string }>(
        databaseUrl,
        "select distinct password_hash as hash from users where not has_password",
      );
      const texts = [...TEXTS, removed.user.password, ...hashes.map(({ hash }) => hash)];
      for (const { email } of [account, removed.user])
        for (const url of [old.url, current.url])
          for (const text of texts) {
            const { status, body } = await login(url, email, text);
            expect([text, status, body.accessToken]).toEqual([text, 401, undefined]);
            await runSql(databaseUrl, "delete from attempts"); // five wrong ones lock an account
          }

      const { email, password } = withPassword;
      for (const url of [old.url, current.url])
        expect((await login(url, email, password)).status).toBe(200);
      await at(old.url).post("/auth/forgot-password", { email: account.email });
      const { token } = await mail.emailTo(account.email, /Reset/);
      const form = { token, password: NEW_PASSWORD };
      expect((await at(old.url).post("/auth/reset-password", form)).status).toBe(200);
      for (const url of [old.url, current.url])
        expect((await login(url, account.email, NEW_PASSWORD)).status).toBe(200);
    },
  );
});

/**
 * Unpacks the commit before a migration was added, and installs its packages.
 * @returns its folder; the current folder in a clone without history
 */
function unpackReleaseBefore(migration: string | undefined): string {
  const run = (command: string, args: string[], options = {}) =>
    execFileSync(command, args, {
      maxBuffer: 2 ** 28,
      stdio: ["pipe", "pipe", "ignore"],
      ...options,
    });
  const added = [
    "log",
    "--diff-filter=A",
    "--format=%H",
    "--",
    `services/store/migrations/${migration}.*`,
  ];
  try {
    const first = run("git", added).toString().trim().split("\n").at(-1);
    const folder = temporaryFolder();
    run("tar", ["-x", "-C", folder], { input: run("git", ["archive", `${first}^`]) });
    run("npm", ["ci", "--omit=dev", "--ignore-scripts", "--prefer-offline"], { cwd: folder });
    return folder;
  } catch {
    return CURRENT;
  }
}
