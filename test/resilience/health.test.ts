import { setTimeout as wait } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import pg from "pg";
import { afterEach, expect, test } from "vitest";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/health/v1/health_pb.ts";
import { type Mode, startApp, startSuiteApp } from "../support/app.ts";
import { createMigratedDatabase } from "../support/database/databases.ts";
import { POSTGRES_BIN, startPostgresServer } from "../support/database/postgres-server.ts";
import { startSmtpServer } from "../support/mail/smtp-server.ts";
import { startProxy } from "../support/network/tcp-proxy.ts";
import { describeConcurrent, forSuite, forTest } from "../support/suites.ts";
import { tally, times } from "../support/tally.ts";
import { until } from "../support/until.ts";

const FULL: Mode[] = process.env.TEST_FULL ? ["servers"] : [];
const modes: Mode[] = process.env.TEST_SERVERS ? ["apart", ...FULL] : [];

describeConcurrent(modes, "GET /health, %s", async (mode) => {
  const smtpServer = await forSuite(startSmtpServer());
  const proxies = {
    database: await forSuite(startProxy(await createMigratedDatabase())),
    cache: await forSuite(startProxy(process.env.TEST_REDIS_URL as string)),
    mail: await forSuite(startProxy(smtpServer.url)),
  };
  const { database, cache, mail } = proxies;
  const env = { DATABASE_URL: database.url, REDIS_URL: cache.url, SMTP_URL: mail.url };
  const app = await startSuiteApp({ mode, env });
  afterEach(async () => {
    for (const proxy of Object.values(proxies)) proxy.restore();
    await until("all parts to be ok", async () => (await get("/health")).body.status === "ok");
  });
  const get = (path: string) => app.httpClient().get(path);
  const grpc = createClient(Health, createGrpcTransport({ baseUrl: app.grpcUrl }));
  const statusOf = async (service: string) => (await grpc.check({ service })).status;

  test.each([
    ["cache", "cut"],
    ["cache", "silence"],
    ["mail", "cut"],
    ["mail", "silence"],
  ] as const)("is degraded and still ready without %s (%s)", async (part, how) => {
    const { accessToken } = await app.signIn();
    proxies[part][how]();
    const ok = { database: "ok", cache: "ok", mail: "ok" };
    await until(`${part} alone to be reported`, async () => {
      const { status, checks } = (await get("/health")).body;
      const statuses = Object.fromEntries(
        Object.keys(checks).map((name) => [name, checks[name].status]),
      );
      return isDeepStrictEqual(
        { status, ...statuses },
        { status: "degraded", ...ok, [part]: "down" },
      );
    });
    expect(await get("/health/ready")).toMatchObject({ status: 200, body: { status: "degraded" } });
    expect(await statusOf(part)).toBe(Status.NOT_SERVING);
    expect(await statusOf("")).toBe(Status.SERVING);
    expect(await app.profileStatus(accessToken)).toBe(200);
  });

  test.each(["cut", "silence"] as const)(
    "is down but live without its database (%s), and recovers with it",
    async (how) => {
      const { accessToken } = await app.signIn();
      const watched: number[] = [];
      const leaving = new AbortController();
      const watching = (async () => {
        for await (const { status } of grpc.watch({ service: "" }, { signal: leaving.signal }))
          watched.push(status);
      })().catch(() => {});
      await until("the first status of the watch", () => watched.length === 1);
      proxies.database[how]();
      const { body } = await until("the database to be reported", async () => {
        const answer = await get("/health");
        return answer.status === 503 ? answer : undefined;
      });
      expect([body.status, body.checks.database.status]).toEqual(["down", "down"]);
      expect((await get("/health/ready")).status).toBe(503);
      expect((await get("/health/live")).status).toBe(200);
      await until("the cache to be ok", async () => (await get("/health/cache")).status === 200);
      expect(await statusOf("")).toBe(Status.NOT_SERVING);
      if (how === "cut") expect(await app.profileStatus(accessToken)).toBe(503);
      await until("the second status of the watch", () => watched.length === 2);
      proxies.database.restore();
      await until("readiness", async () => (await get("/health/ready")).status === 200, 2_000);
      await until("service", async () => (await app.profileStatus(accessToken)) === 200, 2_000);
      await until("the third status of the watch", () => watched.length === 3);
      expect(watched).toEqual([Status.SERVING, Status.NOT_SERVING, Status.SERVING]);
      leaving.abort();
      await watching;
    },
  );

  test.each([
    { what: "a wrong password", code: "28P01" },
    { what: "a user that may not connect", code: "28000" },
    { what: "a missing database", code: "3D000" },
    { what: "a missing privilege", code: "42501" },
    { what: "a failed disk", code: "58030" },
    { what: "another fatal error", code: "XX000" },
  ])("calls are 503 while the database rejects connections: $what", async ({ code }) => {
    const { accessToken, headers } = await app.signIn();
    proxies.database.rejectAsPostgres(code);
    const answer = await app.httpClient().send("GET", "/user/profile", undefined, headers);
    expect(answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
    await until("readiness to go", async () => (await get("/health/ready")).status === 503);
    proxies.database.restore();
    await until("service", async () => (await app.profileStatus(accessToken)) === 200);
  });
});

/** Takes every free slot of a server, and each that becomes free. */
async function takeSlots(url: string) {
  const clients: pg.Client[] = [];
  const open = async () => {
    const client = new pg.Client(url).on("error", () => {});
    await client.connect();
    clients.push(client);
  };
  const fill = async () => {
    for (;;) await open();
  };
  const isFull = (error: { code?: string }) => error.code === "53300";
  await fill().catch((error) => expect(isFull(error)).toBe(true));
  const timer = setInterval(() => void fill().catch(() => {}), 30);
  return {
    close: async () => {
      clearInterval(timer);
      await Promise.all(clients.map((client) => client.end()));
    },
  };
}

test.runIf(process.env.TEST_SERVERS && POSTGRES_BIN)(
  "GET /health/ready: is 200 while requests succeed on a server without a free slot, and 503 once it is down",
  async () => {
    const server = await forTest(startPostgresServer({ max_connections: "25" }));
    const proxy = await forTest(startProxy(server.url));
    const app = await forTest(startApp({ mode: "servers", env: { DATABASE_URL: proxy.url } }));
    const { browser, accessToken } = await app.signIn();
    const grpc = createClient(Health, createGrpcTransport({ baseUrl: app.grpcUrl }));
    const work = () => {
      const paths = ["/user/sessions", "/user/sessions", "/user/profile"];
      return Promise.all(paths.map((path) => browser.get(path, accessToken)));
    };
    const health = async () => {
      const paths = ["/health", "/health/ready", "/health/database"];
      const answers = await Promise.all(paths.map((path) => app.httpClient().get(path)));
      const { status } = await grpc.check({ service: "" });
      return [...answers.map((answer) => answer.status), status];
    };
    const occupyPool = () => Promise.all(times(12, () => app.sql("select pg_sleep(0.4)")));
    await occupyPool();
    const slots = await takeSlots(server.url);

    for (const isBusy of [false, true, false, true]) {
      const [answers, states] = await Promise.all([work(), health(), isBusy && occupyPool()]);
      expect(tally(answers, ({ status }) => status)).toEqual({ 200: answers.length });
      expect(states).toEqual([200, 200, 200, Status.SERVING]);
      await wait(500); // longer than results of checks are reused
    }
    await slots.close();
    proxy.cut();
    const started = performance.now();
    await until("the end to be reported", async () => (await health()).includes(503));
    expect(performance.now() - started).toBeLessThan(4_000);
    await until("all to agree", async () =>
      isDeepStrictEqual(await health(), [503, 503, 503, Status.NOT_SERVING]),
    );
  },
);

test.runIf(process.env.TEST_SERVERS)(
  "GET /health/ready: is 200 while calls wait for a connection",
  async () => {
    const app = await forTest(startApp({ mode: "servers" }));
    const get = () => app.httpClient().get("/health/ready");
    expect((await get()).status).toBe(200);
    const busy = Promise.all(times(20, () => app.sql("select pg_sleep(2)"))); // two for each connection
    const answer = await Promise.race([get(), busy]);
    expect(answer).toMatchObject({ status: 200, body: { checks: { database: { status: "ok" } } } });
    await busy;
  },
);
