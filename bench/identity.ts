/**
 * Accounts beside better-auth, bare Fastify and the machine's own limits: same PostgreSQL, in one
 * run.
 */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import pg from "pg";
import { chain } from "./chain.ts";
import { closeAll } from "./closing.ts";
import { isChosen, record } from "./results.ts";
import { inTurns, load, median, report, type Server, startServer } from "./server.ts";
import { post, type Stage, setStage } from "./stage.ts";

const PEOPLE = 64;
const CLIENTS = 8;
const SESSIONS = 32;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 3);
const STORM = 500;
const password = "Correct-horse-1";
const json = { method: "POST", headers: { "content-type": "application/json" } } as const;
const say = (line: string) => process.stdout.write(`${line}\n`);

execFileSync("npm", ["ci", "--prefix", "bench/better-auth", "--no-audit", "--no-fund"], {
  stdio: "ignore",
});
const stage = await setStage();
const { sub, sid } = decodeJwt(stage.accessToken) as { sub: string; sid: string };
const bareEnv = { DATABASE_URL: stage.databaseUrl, USER_ID: sub, SESSION_ID: sid };
const peerEnv = { DATABASE_URL: await peerDatabase() };
const bare = await startServer(["bench/bare-fastify.ts"], bareEnv);
const peer = await startServer(["bench/better-auth/server.ts"], peerEnv);
/** The same on all cores. */
const everywhere = await setStage({}, "all");
const peers = {
  bare: await startServer(
    ["bench/bare-fastify.ts"],
    { ...bareEnv, DATABASE_URL: everywhere.databaseUrl },
    "all",
  ),
  peer: await startServer(["bench/better-auth/server.ts"], peerEnv, "all"),
};
try {
  await profile();
  await passwords();
  await refresh();
  await storm();
} finally {
  await closeAll();
}

/** better-auth makes tables of its own names, in a schema of its own. */
async function peerDatabase(): Promise<string> {
  const client = new pg.Client(stage.databaseUrl);
  await client.connect();
  await client.query("create schema peer");
  await client.end();
  return `${stage.databaseUrl}?options=-c%20search_path%3Dpeer`;
}

async function profile(): Promise<void> {
  const row = "profile, 32 clients";
  if (!isChosen(row)) return;
  await post(peer, "/api/auth/sign-up/email", { email: "ann@example.com", password, name: "Ann" });
  const signedIn = await post(peer, "/api/auth/sign-in/email", {
    email: "ann@example.com",
    password,
  });
  const cookie = signedIn.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  report(
    row,
    await inTurns({
      "bare Fastify, one SELECT": { server: bare, request: { path: "/user/profile" } },
      Gatehouse: {
        server: stage.server,
        request: {
          path: "/user/profile",
          headers: { authorization: `Bearer ${stage.accessToken}` },
        },
      },
      "better-auth get-session": {
        server: peer,
        request: { path: "/api/auth/get-session", headers: { cookie } },
      },
    }),
  );
}

/** Sign-ins and registrations of 8 clients, on programs that may use every core. */
async function passwords(): Promise<void> {
  const emails = Array.from({ length: PEOPLE }, () => `${randomUUID()}@example.com`);
  for (const email of emails) {
    await post(everywhere.server, "/auth/register", {
      email,
      password,
      name: "Ann",
      acceptTerms: true,
    });
    await post(peers.peer, "/api/auth/sign-up/email", { email, password, name: "Ann" });
  }
  const signIns = (path: string) =>
    emails.map((email) => ({ ...json, path, body: JSON.stringify({ email, password }) }));
  const account = { password, name: "Ann", acceptTerms: true };
  const registers = (path: string) => [
    { ...json, path, body: JSON.stringify({ ...account, email: "[<id>]@example.com" }) },
  ];
  for (const [row, requests, own, theirs] of [
    ["login, 8 clients, all cores", signIns, "/auth/login", "/api/auth/sign-in/email"],
    ["register, 8 clients, all cores", registers, "/auth/register", "/api/auth/sign-up/email"],
  ] as const) {
    if (!isChosen(row)) continue;
    const seen: Record<string, number[]> = {
      "argon2 alone": [],
      "bare Fastify": [],
      Gatehouse: [],
      "better-auth": [],
    };
    const measure = async (name: string, server: Server, path: string) => {
      const request = { path: "/", requests: requests(path), idReplacement: true };
      const { perSecond, failed } = await load({ server, request }, SECONDS, CLIENTS);
      if (failed > 0)
        throw new Error(`${failed} requests to ${name} failed: the figures would mean nothing`);
      seen[name]?.push(perSecond);
    };
    for (let round = 0; round < ROUNDS; round++) {
      const alone = execFileSync(process.execPath, ["bench/argon2.ts", String(SECONDS)], {
        encoding: "utf8",
      });
      seen["argon2 alone"]?.push(Number(alone));
      await measure("bare Fastify", peers.bare, own);
      await measure("Gatehouse", everywhere.server, own);
      await measure("better-auth", peers.peer, theirs);
    }
    for (const [name, rounds] of Object.entries(seen)) record(row, "per second", name, rounds);
  }
}

async function refresh(): Promise<void> {
  const row = `refresh, ${SESSIONS} sessions`;
  if (!isChosen(row)) return;
  const signIn = async () =>
    (await (await post(stage.server, "/auth/login", stage.credentials)).json()) as Stage;
  const tokens: string[] = [];
  while (tokens.length < SESSIONS) tokens.push((await signIn()).refreshToken);
  for (const [name, server, own] of [
    ["bare UPDATE and two signatures", bare, tokens.slice()],
    ["Gatehouse", stage.server, tokens],
  ] as const) {
    const rounds = { "per second": [] as number[], "CPU µs": [] as number[] };
    for (let round = 0; round < ROUNDS; round++) {
      const before = server.cpuMs();
      const perSecond = await chain(server.url, own, SECONDS);
      rounds["per second"].push(perSecond);
      rounds["CPU µs"].push(((server.cpuMs() - before) * 1000) / (perSecond * SECONDS));
    }
    for (const [figure, values] of Object.entries(rounds)) record(row, figure, name, values);
  }
}

/** Profile reads, paced, while a storm of logins is on. */
async function storm(): Promise<void> {
  const row = `profile during ${STORM} logins at once`;
  if (!isChosen(row)) return;
  const headers = { authorization: `Bearer ${stage.accessToken}` };
  const logins = Array.from({ length: STORM }, (_, i) =>
    post(stage.server, "/auth/login", { email: `storm-${i}@example.com`, password }).then(
      (answer) => answer.status,
    ),
  );
  const latencies: number[] = [];
  let over = false;
  const statuses = Promise.all(logins).finally(() => {
    over = true;
  });
  while (!over) {
    const started = performance.now();
    await (await fetch(`${(stage.server as Server).url}/user/profile`, { headers })).text();
    latencies.push(performance.now() - started);
  }
  const counts = Object.entries(Object.groupBy(await statuses, String)).map(
    ([status, all]) => `${status}: ${all?.length}`,
  );
  latencies.sort((a, b) => a - b);
  const p99 = latencies[Math.floor(latencies.length * 0.99)] ?? Number.NaN;
  record(row, "p99 ms", "Gatehouse", [p99]);
  say(`\na storm of ${STORM} logins at once (${counts.join(", ")})`);
  say(
    `  profile reads meanwhile            ${latencies.length} reads, p50 ${median(latencies).toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`,
  );
}
