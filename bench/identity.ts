/** Accounts beside better-auth, bare Fastify and the machine's own limits: same PostgreSQL, one core each, in one run. */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import pg from "pg";
import { chain } from "./chain.ts";
import { type Contestant, inTurns, load, median, report, type Server, startServer } from "./server.ts";
import { post, setStage } from "./stage.ts";

const PEOPLE = 64;
const LOGIN_CONNECTIONS = 4;
const ROUNDS = 5;
const STORM = 500;
const password = "Correct-horse-1";
const json = { "content-type": "application/json" };
const say = (line: string) => process.stdout.write(`${line}\n`);

execFileSync("npm", ["ci", "--prefix", "bench/better-auth", "--no-audit", "--no-fund"], { stdio: "ignore" });
const stage = await setStage();
const { sub, sid } = decodeJwt(stage.accessToken) as { sub: string; sid: string };
const bare = await startServer(["bench/bare-fastify.ts"], {
  DATABASE_URL: stage.databaseUrl,
  USER_ID: sub,
  SESSION_ID: sid,
});
const peer = await startServer(["bench/better-auth/server.ts"], { DATABASE_URL: await peerDatabase() });
try {
  await profile();
  await login();
  await refresh();
  await storm();
} finally {
  await Promise.all([bare.close(), peer.close()]);
  await stage.close();
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
  await post(peer, "/api/auth/sign-up/email", { email: "ann@example.com", password, name: "Ann" });
  const signedIn = await post(peer, "/api/auth/sign-in/email", { email: "ann@example.com", password });
  const cookie = signedIn.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  report(
    "reading the profile",
    await inTurns({
      "bare Fastify, one SELECT": { server: bare, request: { path: "/user/profile" } },
      Gatehouse: {
        server: stage.server,
        request: { path: "/user/profile", headers: { authorization: `Bearer ${stage.accessToken}` } },
      },
      "better-auth get-session": { server: peer, request: { path: "/api/auth/get-session", headers: { cookie } } },
    }),
  );
}

async function login(): Promise<void> {
  const emails = Array.from({ length: PEOPLE }, () => `${randomUUID()}@example.com`);
  for (const email of emails) {
    await post(stage.server, "/auth/register", { email, password, name: "Ann", acceptTerms: true });
    await post(peer, "/api/auth/sign-up/email", { email, password, name: "Ann" });
  }
  const requests = (path: string) =>
    emails.map((email) => ({
      method: "POST" as const,
      path,
      headers: json,
      body: JSON.stringify({ email, password }),
    }));
  const own = { server: stage.server, request: { path: "/", requests: requests("/auth/login") } };
  const theirs = { server: peer, request: { path: "/", requests: requests("/api/auth/sign-in/email") } };
  const logins = async (contestant: Contestant) => {
    const { perSecond, failed } = await load(contestant, 3, LOGIN_CONNECTIONS);
    if (failed > 0) throw new Error(`${failed} logins failed: the figures would mean nothing`);
    return perSecond;
  };
  const plain = { server: bare, request: own.request };
  const seen = { limit: [] as number[], own: [] as number[], plain: [] as number[], theirs: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    seen.limit.push(
      Number(execFileSync("taskset", ["-c", "0", process.execPath, "bench/argon2.ts"], { encoding: "utf8" })),
    );
    seen.own.push(await logins(own));
    seen.plain.push(await logins(plain));
    seen.theirs.push(await logins(theirs));
  }
  const share = (of: number[]) => median(of.map((value, i) => value / (seen.limit[i] ?? 1))).toFixed(2);
  say("\nsigning in, argon2id at 19 MiB and 2 passes");
  say(`  argon2 alone, one core             ${median(seen.limit).toFixed(1)} /s   share 1.00`);
  say(`  Gatehouse                          ${median(seen.own).toFixed(1)} /s   share ${share(seen.own)}`);
  say(`  bare Fastify, SELECT and UPDATE    ${median(seen.plain).toFixed(1)} /s   share ${share(seen.plain)}`);
  say(`  better-auth                        ${median(seen.theirs).toFixed(1)} /s   share ${share(seen.theirs)}`);
}

async function refresh(): Promise<void> {
  const tokens = await Promise.all(
    Array.from(
      { length: 16 },
      async () =>
        ((await (await post(stage.server, "/auth/login", stage.credentials)).json()) as { refreshToken: string })
          .refreshToken,
    ),
  );
  const seen = { bare: [] as number[], own: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    seen.bare.push(await chain(bare.url, tokens.slice(), 3));
    seen.own.push(await chain(stage.server.url, tokens, 3));
  }
  say("\nrefreshing, 16 sessions at once");
  say(`  bare Fastify, UPDATE and signing   ${median(seen.bare).toFixed(0)} /s   share 1.00`);
  const share = median(seen.own.map((value, i) => value / (seen.bare[i] ?? 1)));
  say(`  Gatehouse                          ${median(seen.own).toFixed(0)} /s   share ${share.toFixed(2)}`);
}

/** Profile reads, paced, while a storm of logins is on. */
async function storm(): Promise<void> {
  const headers = { authorization: `Bearer ${stage.accessToken}` };
  const logins = Array.from({ length: STORM }, (_, i) =>
    post(stage.server, "/auth/login", { email: `storm-${i}@example.com`, password }).then((answer) => answer.status),
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
  say(`\na storm of ${STORM} logins at once (${counts.join(", ")})`);
  say(
    `  profile reads meanwhile            ${latencies.length} reads, p50 ${median(latencies).toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`,
  );
}
