import { connect } from "node:net";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { FlakyTests } from "./test/flaky-tests.ts";
import type { Mode } from "./test/support/app.ts";
import { isMissing } from "./test/support/suites.ts";

const databaseUrl = process.env.TEST_DATABASE_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";
const redisUrl = process.env.TEST_REDIS_URL ?? "redis://127.0.0.1:6379";
const haveServers = (await Promise.all([databaseUrl, redisUrl].map(answers))).every(Boolean);
if (!haveServers && process.env.CI)
  throw new Error(`CI needs PostgreSQL at ${databaseUrl} and Redis at ${redisUrl}`);
const haveInfrastructure =
  haveServers && !["nginx", "redis-server", "pgbouncer", "setpriv"].some(isMissing);

/**
 * Everything, as before a release. Without it, as in the gate, a run aims at eight minutes. Each
 * suite then runs once, and those of `twice` once more on replicas; `long` is left out; and tables,
 * loads and races of a suite are smaller where the suite asks for TEST_FULL itself.
 */
const full = process.env.TEST_FULL !== undefined;

/** Suites that drive the product from outside. */
const contract = ["test/contract/**/*.test.ts"];

/** Suites that meet storage, or the way between gateway and services. */
const stored = [
  "test/contract/{admin,ai,auth,database,user}/**/*.test.ts",
  "test/contract/http/hostile-input.test.ts",
];

/** Suites of accounts: they pass unchanged with every feature of signing in, see `TEST_FEATURES`. */
const accounts = ["test/contract/{admin,auth,client,docs,grpc,http,mail,user}/**/*.test.ts"];

/**
 * Left to TEST_FULL: whole installations, foreign programs, random faults, high load and what an
 * operator does once a year: what they join is tested one by one in others. So are kills of
 * processes, but for those of `kill` and `replicas`, and pages of a single feature and details of
 * others, whose routes, looks and shared parts have suites of their own.
 */
const long = full
  ? []
  : [
      "test/contract/commands/{migrate,restore,rotate-keys,withdraw-keys}.test.ts",
      "test/contract/{auth/ways-in-sequences,examples/*,http/public-url-path,observability/monitoring,observability/tracing,web/other-origin}.test.ts",
      "test/contract/web/{admin-details,api-keys,budgets,conversations,costs,email-codes,external,known-devices,passkey-pages,webhooks}.test.ts",
      "test/resilience/{deployment-files,faults,reverse-proxies,rolling-upgrade,soak}.test.ts",
      "test/resilience/{internal-listener,redis-cluster,refused-statements,services-end,wrong-clock}.test.ts",
      "test/resilience/{budgets,sign-in-restart,unfinished-guesses,webhook-replicas,webhooks}.test.ts",
    ];

/**
 * Suites whose requests race each other, or whose streams end from elsewhere: in full on every
 * deployment.
 */
const races = [
  "test/contract/admin/{impersonate,last-administrator}.test.ts",
  "test/contract/ai/{ending,routes,usage}.test.ts",
  "test/contract/auth/{api-keys,email-codes,ends-in-flight,external-attacks,known-devices,login,login-guesses,not-me,pre-hijack,refresh,reset-password,settings,verify-mfa,ways-in}.test.ts",
  "test/contract/database/*.test.ts",
  "test/contract/mail/mailbox-limits.test.ts",
  "test/contract/user/{api-keys,delete-account,end-sessions,sessions}.test.ts",
];

/**
 * Suites of gateways or processes of their own, and of the metrics of one process. They are the
 * same on replicas.
 */
const alone = [
  "test/contract/{commands,health,observability}/*.test.ts",
  "test/contract/{docs/openapi,mail/links,web/*}.test.ts",
  "test/contract/http/{connection,cors,every-request,malformed-http,public-url-path,tls}.test.ts",
];

/**
 * Suites that also run on replicas, or where nginx and PgBouncer are missing with gateway and
 * services apart. One of each kind of race on PostgreSQL, limits that replicas count together,
 * sessions that end at the other replica, and streams and hostile values between the processes.
 */
const twice = [
  "test/contract/admin/last-administrator.test.ts",
  "test/contract/ai/{budgets,ending,event-lines,memory}.test.ts",
  "test/contract/auth/{api-keys,login,login-guesses,refresh}.test.ts",
  "test/contract/http/hostile-input.test.ts",
  "test/contract/user/{api-keys,delete-account,end-sessions}.test.ts",
];

/** Suites that use both cores by themselves. They run after all others, so that neither disturbs the other. */
const load = ["test/resilience/exhaustion.test.ts"];

/**
 * The longest suites of the last project, in the order in which they begin, so that no worker waits
 * for another at the end. Those that wait for time limits take turns with those that work.
 */
const FIRST = [
  ...["faults", "soak", "rolling-upgrade", "kill", "close-days", "workers", "health", "replicas"],
  ...["mail/worker", "starts", "clouds", "attacks", "endings", "resilience/budgets", "timeouts"],
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const last = sorted.filter(({ project }) => project.name === "parts");
    const others = sorted.filter(({ project }) => project.name !== "parts");
    const first = FIRST.flatMap((name) =>
      last.filter(({ moduleId }) => moduleId.endsWith(`/${name}.test.ts`)),
    );
    return [...others, ...first, ...last.filter((file) => !first.includes(file))];
  }
}

/** Deployments: see `Mode`. */
const suites: Record<Mode, string[]> = {
  embedded: contract,
  servers: races,
  apart: full ? stored : twice,
  replicas: full ? contract : twice,
};
const modes: Mode[] = ["embedded"];
if (haveServers && (full || !haveInfrastructure)) modes.push("apart");
if (haveServers && full) modes.push("servers");
if (haveInfrastructure) modes.push("replicas");

// Vitest's own configuration interface is a default export.
// biome-ignore lint/style/noDefaultExport: see above
export default defineConfig({
  resolve: {
    alias: {
      "@gatehouse/client": `${import.meta.dirname}/client/src/index.ts`, // as web/ builds it
      "@electric-sql/pglite-prepopulatedfs": `${import.meta.dirname}/test/support/database/embedded-image.ts`,
    },
  },
  test: {
    pool: "threads",
    isolate: false,
    maxWorkers: 3, // suites wait for a third of their time, and the gate has two cores
    sequence: { sequencer: LongestFirst },
    testTimeout: process.env.RACE_ROUNDS ? 3_600_000 : 300_000, // only what hangs waits for these
    hookTimeout: 300_000,
    retry: process.env.CI ? 1 : 0,
    reporters: ["default", new FlakyTests()],
    expect: { poll: { timeout: 100_000 } },
    globalSetup: ["test/support/database/databases.ts", "test/support/temporary-folder.ts"],
    env: {
      TEST_DATABASE_URL: databaseUrl,
      TEST_REDIS_URL: redisUrl,
      TEST_SERVERS: haveServers ? "yes" : "",
      TEST_INFRASTRUCTURE: haveInfrastructure ? "yes" : "",
    },
    projects: [
      ...modes.map((mode) => ({
        extends: true as const,
        test: {
          name: mode,
          include: suites[mode],
          exclude: mode === "replicas" ? alone : long,
          env: { TEST_MODE: mode },
          maxConcurrency: 12, // the provider matrix waits more than it works
        },
      })),
      ...(full
        ? [
            {
              extends: true as const,
              test: {
                name: "features",
                include: accounts,
                exclude: long,
                env: { TEST_MODE: "embedded", TEST_FEATURES: "yes" },
              },
            },
          ]
        : []),
      {
        extends: true as const,
        test: {
          name: "parts",
          include: ["test/**/*.test.ts"],
          exclude: [...contract, ...long, ...load],
          maxConcurrency: 12,
        },
      },
      {
        extends: true as const,
        test: { name: "load", include: load, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
    ],
  },
});

function answers(url: string): Promise<boolean> {
  const { hostname, port, protocol } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port) || (protocol === "redis:" ? 6379 : 5432), hostname);
    socket.setTimeout(1_000, () => socket.destroy());
    socket.on("connect", () => resolve(true)).on("connect", () => socket.destroy());
    socket.on("error", () => resolve(false)).on("close", () => resolve(false));
  });
}
