import { readFileSync } from "node:fs";
import { Agent, request as sendRequest } from "node:http";
import type { Socket } from "node:net";
import { join, resolve } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { readConfig } from "../../services/platform/config/config.ts";
import { PASSWORD, signInAt } from "../support/accounts.ts";
import { conversationOf, eventsIn } from "../support/ai/calls.ts";
import { startRawProvider } from "../support/ai/raw-provider.ts";
import { createMigratedDatabase, runSql } from "../support/database/databases.ts";
import { grpcUrlIn } from "../support/grpc.ts";
import { bearer, createHttpClient, postJson } from "../support/http/client.ts";
import { sendRawHttp } from "../support/http/raw.ts";
import { smtpMailbox } from "../support/mail/mailbox.ts";
import { freePort } from "../support/network/sockets.ts";
import {
  type Process,
  readMetrics,
  runScript,
  startProcess,
  startServices,
} from "../support/processes/processes.ts";
import { describeIf, forSuite, forTest } from "../support/suites.ts";
import { tally, times } from "../support/tally.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const WORKERS = 2;
const INTERNAL_SECRET = "between-gateway-and-services";
/** Enough for every worker to get some of them. */
const REQUESTS = 20;

/** Storage that workers share, and settings of a test. */
const sharedStorage = async (): Promise<Record<string, string>> => ({
  WORKERS: String(WORKERS),
  DATA_DIR: temporaryFolder(),
  DATABASE_URL: await createMigratedDatabase(),
  REDIS_URL: process.env.TEST_REDIS_URL as string,
  TRUST_PROXY: "127.0.0.1",
  INTERNAL_SECRET,
  LOG_LEVEL: "debug",
});

/** Starts a process, and waits until both of its workers serve. */
const startWorkers = (env: Record<string, string> = {}) => forTest(openWorkers(env));

async function openWorkers(env: Record<string, string>) {
  const started = await startProcess({ ...(await sharedStorage()), ...env });
  await until("both workers", () => workersOf(started).length === WORKERS);
  return started;
}

type Line = {
  msg?: string;
  worker?: number;
  pid?: number;
  route?: string;
  [name: string]: unknown;
};

/** The log lines of a process so far. */
const linesOf = ({ output }: Pick<Process, "output">): Line[] =>
  output()
    .split("\n")
    .filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line));

/** The workers that have begun to serve so far. */
const workersOf = (started: Pick<Process, "output">) =>
  linesOf(started).filter(({ msg }) => msg === "worker serves") as {
    worker: number;
    pid: number;
  }[];

/** Sends a GET on its own connection. */
async function getAlone(url: string, path: string, headers: Record<string, string> = {}) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const text = await sendRawHttp(
    Number(new URL(url).port),
    `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines.join("")}\r\n`,
  );
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

const eventOf = (delta: object, rest: object = {}) =>
  `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: null }], ...rest })}\n\n`;
const STREAM = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const LAST =
  eventOf({}, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) +
  eventOf({}, { choices: [], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } }) +
  "data: [DONE]\n\n";

/** Starts a provider whose streams have one chunk until the test finishes them. */
async function startHeldProvider() {
  const open: Socket[] = [];
  const provider = await forTest(
    startRawProvider(({ socket }) => {
      socket.write(STREAM + eventOf({ role: "assistant", content: "first" }));
      open.push(socket);
    }),
  );
  return {
    env: { OPENAI_API_KEY: "held-key", OPENAI_BASE_URL: `${provider.url}/v1` },
    finish() {
      for (const socket of open) socket.end(eventOf({ content: " last" }) + LAST);
    },
  };
}

/**
 * Opens a stream, and waits for its first chunk. `rest` is all of it, or fails if it breaks off.
 */
async function openStream(url: string, token: string) {
  const response = await postJson(`${url}/ai/stream`, conversationOf("Hello"), token);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let body = (await reader?.read())?.value ?? "";
  const readAll = async () => {
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read())
      body += part.value;
    return body;
  };
  const requestId = response.headers.get("x-request-id");
  return { requestId, rest: readAll().catch(() => "broken") };
}

/** Each of these starts and ends processes for ten seconds and more. */
const onFullRuns = test.runIf(process.env.TEST_FULL);

describeIf(process.env.TEST_SERVERS, "WORKERS, of one process", async () => {
  const port = await freePort();
  const started = await forSuite(openWorkers({ METRICS_PORT: port }));

  test("all serve REST and gRPC with the addresses of their clients, and log their numbers", async () => {
    const begun = linesOf(started).length;
    const ownLines = () => linesOf(started).slice(begun);
    await Promise.all(
      times(REQUESTS, (i) =>
        getAlone(started.url, "/health/live", { "X-Forwarded-For": `192.0.2.${i}` }),
      ),
    );
    const { headers } = await signInAt(started.url);
    for (let i = 0; i < REQUESTS; i++) {
      const transport = createGrpcTransport({ baseUrl: grpcUrlIn(started.output()) });
      await createClient(UserService, transport).getProfile({}, { headers });
    }
    const rest = await until("the lines of all requests", () => {
      const found = ownLines().filter(({ route }) => route === "/health/live");
      return found.length === REQUESTS ? found : undefined;
    });
    expect(new Set(rest.map(({ worker }) => worker))).toEqual(new Set([1, 2]));
    expect(rest.map(({ address }) => address).sort()).toEqual(
      times(REQUESTS, (i) => `192.0.2.${i}`).sort(),
    );
    const rpcs = await until("the lines of all calls", () => {
      const found = ownLines().filter(
        ({ rpc, address }) => String(rpc).endsWith("GetProfile") && address === "127.0.0.1",
      );
      return found.length === REQUESTS ? found : undefined;
    });
    expect(new Set(rpcs.map(({ worker }) => worker))).toEqual(new Set([1, 2]));
  });

  test("count the requests of a user together, and reject a revoked session immediately", async () => {
    const { accessToken } = await signInAt(started.url);
    const profile = () => getAlone(started.url, "/user/profile", bearer(accessToken));
    const left = Number(/ratelimit-remaining: (\d+)/i.exec((await profile()).text)?.[1]);
    const answers = await Promise.all(times(left + REQUESTS, profile));
    expect(tally(answers, ({ status }) => status)).toEqual({ 200: left, 429: REQUESTS });
    const other = await signInAt(started.url);
    expect((await other.post("/auth/logout")).status).toBe(200);
    const revoked = await Promise.all(
      times(REQUESTS, () => getAlone(started.url, "/user/profile", bearer(other.accessToken))),
    );
    expect(tally(revoked, ({ status }) => status)).toEqual({ 401: REQUESTS });
  });

  test("have one /metrics, whose counters do not decrease when a worker ends", async () => {
    const label =
      'http_server_request_duration_seconds_count{http_request_method="GET",http_route="/health/live",http_response_status_code="200"}';
    const counted = async () => (await readMetrics(port)).get(label);
    const before = (await counted()) ?? 0;
    await Promise.all(times(REQUESTS, () => getAlone(started.url, "/health/live")));
    await until("the count of all workers", async () => (await counted()) === before + REQUESTS);
    const metrics = await readMetrics(port);
    expect(metrics.get("gatehouse_workers")).toBe(WORKERS);
    expect(metrics.get('gatehouse_dependency_up{dependency="database"}')).toBe(1);
    expect(metrics.get("process_start_time_seconds")).toBeGreaterThan(Date.now() / 1000 - 300);
    expect(metrics.get("nodejs_eventloop_lag_p99_seconds")).toBeGreaterThan(0);
    const workers = workersOf(started);
    process.kill(workers.at(-1)?.pid as number, "SIGKILL");
    await until("the replacement", () => workersOf(started).length === workers.length + 1);
    const later = await readMetrics(port);
    expect(later.get(label)).toBe(before + REQUESTS);
    expect(later.get("gatehouse_worker_ends_total")).toBe(workers.length - WORKERS + 1);
    expect(later.get("gatehouse_workers")).toBe(WORKERS);
  });

  test("end with 0 on SIGTERM", async () => {
    expect(await started.end("SIGTERM")).toBe(0);
  });
});

describe.skipIf(!process.env.TEST_SERVERS)("WORKERS", () => {
  // Not in an ordinary run: a connection that is handed to the worker at the moment of its end may
  // wait for the client's time-out, see decision 46.
  onFullRuns(
    "are replaced if killed, and the streams and requests of the others continue",
    async () => {
      const provider = await startHeldProvider();
      const started = await startWorkers({ ...provider.env, RATE_LIMITS: "off" });
      const { accessToken } = await signInAt(started.url);
      const streams = await Promise.all(times(8, () => openStream(started.url, accessToken)));
      const load = startLoad(started.url, accessToken, 8);
      const logins = times(WORKERS * 8, () => signInAt(started.url).catch(() => "broken"));
      const [victim, survivor] = workersOf(started);
      await until("some load", () => load.count() > 100);
      process.kill(victim?.pid as number, "SIGKILL");
      await until("the replacement", () => workersOf(started).length === WORKERS + 1);
      const counted = load.count();
      await until("more load", () => load.count() > counted + 100);
      provider.finish();
      const bodies = await Promise.all(streams.map(({ rest }) => rest));
      const whole = streams.filter((_, i) => bodies[i] !== "broken");
      expect(whole.length).toBeGreaterThan(0);
      expect(whole.length).toBeLessThan(streams.length);
      for (const body of bodies.filter((text) => text !== "broken"))
        expect(eventsIn(body)).toEqual({ text: "first last", error: undefined });
      const { statuses, failures } = await load.stop();
      expect(statuses).toEqual({ 200: load.count() });
      expect(failures).toBeLessThanOrEqual(8); // the request of each connection to that worker
      const ids = new Set(whole.map(({ requestId }) => requestId));
      const served = await until("the lines of the streams", () => {
        const found = linesOf(started).filter(({ requestId }) => ids.has(requestId as string));
        return found.length >= ids.size ? found : undefined;
      });
      expect(new Set(served.map(({ worker }) => worker))).toEqual(new Set([survivor?.worker]));
      expect(linesOf(started)).toContainEqual(
        expect.objectContaining({
          worker: 1,
          signal: "SIGKILL",
          msg: expect.stringMatching(/ended/),
        }),
      );
      await Promise.all(logins);
      const later = times(WORKERS * 4, () => signInAt(started.url)); // with its slots for hashes
      expect(await Promise.all(later)).toHaveLength(WORKERS * 4);
      expect(await started.end("SIGTERM")).toBe(0);
    },
  );

  onFullRuns(
    "end the process if they end during their start; it is ready with the first one until then",
    async () => {
      const preload = resolve("test/resilience/preloads/ending-worker.ts");
      const storage = await sharedStorage();
      const started = await forTest(
        startProcess({ ...storage, NODE_OPTIONS: `--import=${preload}` }),
      );
      await until("a worker that ended", () => linesOf(started).some(({ code }) => code === 7));
      expect((await getAlone(started.url, "/health/ready")).status).toBe(200);
      expect(await started.ended).toBe(1);
      const fatal = linesOf(started).filter(({ level }) => level === 60);
      expect(fatal).toMatchObject([
        { code: 7, msg: "the process ends: 5 workers in a row ended after their start" },
      ]);
      expect(workersOf(started)).toHaveLength(1);
    },
  );

  onFullRuns("finish their streams on SIGTERM, and the process ends with 0", async () => {
    const provider = await startHeldProvider();
    const started = await startWorkers(provider.env);
    const { accessToken } = await signInAt(started.url);
    const streams = await Promise.all(times(4, () => openStream(started.url, accessToken)));
    const ended = started.end("SIGTERM");
    await until("the end to begin", async () => {
      const { status } = await getAlone(started.url, "/health/ready");
      return status === 503;
    });
    provider.finish();
    for (const { rest } of streams)
      expect(eventsIn(await rest)).toEqual({ text: "first last", error: undefined });
    expect(await ended).toBe(0);
    expect(workersOf(started).filter(({ pid }) => isAlive(pid))).toEqual([]);
  });

  onFullRuns("end once the process that started them is killed", async () => {
    const started = await startWorkers();
    expect(await started.end("SIGKILL")).toBe("SIGKILL");
    await until("their end", () => workersOf(started).every(({ pid }) => !isAlive(pid)));
  });

  onFullRuns(
    "send each e-mail once, erase each account once, and seal an intact audit log",
    async () => {
      const mail = await forTest(smtpMailbox());
      const storage = await sharedStorage();
      const env = { ...storage, SMTP_URL: mail.url, DELETION_GRACE: "1ms" };
      const first = await startWorkers(env);
      const accounts = await Promise.all(times(REQUESTS, () => signInAt(first.url)));
      for (const { user, post } of accounts) {
        await mail.emailTo(user.email, /./);
        const { status } = await post("/user/delete-account", { password: user.password });
        expect(status).toBe(200);
      }
      expect(await first.end("SIGTERM")).toBe(0);
      const second = await startWorkers(env); // every job runs when a worker starts
      const sql = <T>(text: string) => runSql<T>(storage.DATABASE_URL as string, text);
      await until("the erasures", async () => (await sql("select 1 from users")).length === 0);
      await until("the seals", async () => {
        return (await sql("select 1 from audit_unsealed")).length === 0;
      });
      const erased = await sql<{ events: number }>(
        "select count(*)::int as events from audit_events where event = 'user.erased' group by user_id",
      );
      expect(erased).toEqual(times(REQUESTS, () => ({ events: 1 })));
      for (const { user } of accounts) {
        const subjects = (await mail.emailsTo(user.email)).map(({ subject }) => subject);
        expect(subjects).toEqual([...new Set(subjects)]);
      }
      const verify = await runScript("audit-verify", [], env);
      expect(verify.out).toContain("The audit log is intact");
      expect(await second.end("SIGTERM")).toBe(0);
    },
  );

  onFullRuns(
    "of standalone services and gateways share a Unix socket, even after a kill",
    async () => {
      const storage = await sharedStorage();
      const url = `unix:${join(storage.DATA_DIR as string, "services.sock")}`;
      const start = async () => {
        const services = await forTest(startServices({ ...storage, INTERNAL_URL: url }));
        await until("both workers", () => workersOf(services).length === WORKERS);
        return services;
      };
      const { DATABASE_URL: _, ...ofGateway } = storage;
      const services = await start();
      const gateway = await startWorkers({ ...ofGateway, SERVICES_URL: url });
      const { accessToken } = await signInAt(gateway.url);
      const statuses = async () => {
        const profile = (_: unknown, i: number) =>
          getAlone(gateway.url, "/user/profile", {
            ...bearer(accessToken),
            "X-Forwarded-For": `192.0.2.${i}`, // few calls of an address may wait for the public keys
          });
        const answers = await Promise.all(Array.from({ length: REQUESTS }, profile));
        return tally(answers, ({ status }) => status);
      };
      expect(await statuses()).toEqual({ 200: REQUESTS });
      const rpcs = () => linesOf(services).filter(({ rpc }) => String(rpc).endsWith("GetProfile"));
      expect(new Set(rpcs().map(({ worker }) => worker))).toEqual(new Set([1, 2]));
      process.kill(workersOf(services)[0]?.pid as number, "SIGKILL");
      await until("the replacement", () => workersOf(services).length === WORKERS + 1);
      expect(await statuses()).toEqual({ 200: REQUESTS });
      await services.end("SIGKILL");
      await until("their end", () => workersOf(services).every(({ pid }) => !isAlive(pid)));
      await start(); // the socket file of the killed process is still there
      expect(await statuses()).toEqual({ 200: REQUESTS });
    },
  );

  onFullRuns("of services serve HTTP/2 and the internal listener with TLS", async () => {
    const files = "test/support/network/tls/ours";
    const tls = {
      GRPC_TLS_CERT: `${files}.pem`,
      GRPC_TLS_KEY: `${files}.key`,
      GRPC_TLS_CA: `${files}.pem`,
    };
    const storage: Record<string, string> = { ...(await sharedStorage()), ...tls };
    const url = `tls://127.0.0.1:${await freePort()}`;
    const services = await forTest(startServices({ ...storage, INTERNAL_URL: url }));
    await until("both workers", () => workersOf(services).length === WORKERS);
    const { DATABASE_URL: _, ...ofGateway } = storage;
    const gateway = await startWorkers({ ...ofGateway, SERVICES_URL: url });
    const { accessToken, headers } = await signInAt(gateway.url);
    const rpcsOf = () => linesOf(services).filter(({ rpc }) => String(rpc).endsWith("GetProfile"));
    const answers = await Promise.all(
      times(8, () => getAlone(gateway.url, "/user/profile", bearer(accessToken))),
    );
    expect(tally(answers, ({ status }) => status)).toEqual({ 200: 8 });
    const [cert, key] = [readFileSync(`${files}.pem`), readFileSync(`${files}.key`)];
    for (let i = 0; i < REQUESTS; i++) {
      const transport = createGrpcTransport({
        baseUrl: `https://${services.url}`,
        nodeOptions: { ca: cert, cert, key },
      });
      const client = createClient(UserService, transport);
      await client.getProfile({}, { headers: { ...headers, "x-forwarded-for": `192.0.2.${i}` } });
    }
    const direct = () => rpcsOf().filter(({ address }) => String(address).startsWith("192.0.2."));
    await until("a log line of each call", () => direct().length === REQUESTS);
    expect(new Set(direct().map(({ worker }) => worker))).toEqual(new Set([1, 2]));
  });

  onFullRuns(
    "prepare once: there is one administrator, or one banner with the link to become one",
    async () => {
      const storage = await sharedStorage();
      const open = await startWorkers(storage);
      expect(open.output().match(/is ready\./g)).toHaveLength(1);
      expect(open.output().match(/register#setup=\S+/g)).toHaveLength(1);
      expect(await open.end("SIGTERM")).toBe(0);
      const admin = { ADMIN_EMAIL: "root@example.com", ADMIN_PASSWORD: PASSWORD };
      const started = await startWorkers({ ...storage, ...admin });
      expect(started.output()).not.toContain("register#setup=");
      const { status } = await createHttpClient(started.url).post("/auth/login", {
        email: admin.ADMIN_EMAIL,
        password: PASSWORD,
      });
      expect(status).toBe(200);
      const rows = await runSql(storage.DATABASE_URL as string, "select email, role from users");
      expect(rows).toEqual([{ email: admin.ADMIN_EMAIL, role: "admin" }]);
    },
  );

  onFullRuns("run the command given to `gatehouse`", async () => {
    const storage = await sharedStorage();
    const command = ["scripts/commands/bin.js", "start"];
    const started = await forTest(startProcess(storage, command));
    await until("both workers", () => workersOf(started).length === WORKERS);
    expect((await getAlone(started.url, "/health/ready")).status).toBe(200);
    expect(await started.end("SIGTERM")).toBe(0);
  });

  onFullRuns("report once that an address is in use, and exit with 1", async () => {
    const started = await startWorkers();
    const port = new URL(started.url).port;
    const refused = await startProcess({ ...(await sharedStorage()), PORT: port }).catch(
      ({ message }: Error) => message,
    );
    expect(refused).toMatch(/ended with 1: /);
    expect(String(refused).match(/PORT is already in use/g)).toHaveLength(1);
  });
});

describe("WORKERS, settings", () => {
  test.each([
    ["all", {}, /^WORKERS needs DATABASE_URL and REDIS_URL: more than one worker must share/],
    ["all", { DATABASE_URL: "memory:", REDIS_URL: "redis://r" }, /^WORKERS needs DATABASE_URL:/],
    ["all", { DATABASE_URL: "postgres://h/d" }, /^WORKERS needs REDIS_URL:/],
    ["services", { INTERNAL_SECRET }, /^WORKERS needs DATABASE_URL and REDIS_URL:/],
    ["gateway", { INTERNAL_SECRET, SERVICES_URL: "http://s" }, /^WORKERS needs REDIS_URL:/],
  ] as const)("of %s with %j are refused with one sentence", (role, env, sentence) => {
    const { problems } = readConfig({ WORKERS: "2", ...env }, role);
    expect(problems).toEqual([expect.stringMatching(sentence)]);
  });

  test.each(["0", "257", "two", "-1"])("WORKERS=%s is rejected", (workers) => {
    const { problems } = readConfig({ WORKERS: workers });
    expect(problems).toEqual(["WORKERS must be auto, or a whole number from 1 to 256"]);
  });

  test("one worker requires neither", () => {
    expect(readConfig({ WORKERS: "1" }).problems).toEqual([]);
  });
});

/** Clients that read their profile until they are stopped, each on one connection at a time. */
function startLoad(url: string, token: string, clients: number) {
  const statuses: number[] = [];
  let failures = 0;
  let isStopped = false;
  const work = async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    while (!isStopped) {
      try {
        statuses.push(await statusOf(`${url}/user/profile`, token, agent));
      } catch {
        failures++;
      }
    }
    agent.destroy();
  };
  const working = times(clients, work);
  return {
    count: () => statuses.length,
    async stop() {
      isStopped = true;
      await Promise.all(working);
      return { statuses: tally(statuses, (status) => status), failures };
    },
  };
}

function statusOf(url: string, token: string, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    sendRequest(url, { agent, headers: bearer(token) }, (response) => {
      response.on("error", reject).on("end", () => resolve(response.statusCode as number));
      response.resume();
    })
      .on("error", reject)
      .end();
  });
}
