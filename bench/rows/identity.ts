/** Accounts beside better-auth, bare Fastify and argon2 alone, on the same PostgreSQL server. */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import { WebAuthnEmulator } from "nid-webauthn-emulator";
import pg from "pg";
import { closeAll } from "../harness/cleanup.ts";
import { inTurns, load } from "../harness/http-load.ts";
import { refreshLoad } from "../harness/refresh-load.ts";
import { type Server, startServer } from "../harness/server.ts";
import { isChosen, ROUNDS, SECONDS } from "../harness/settings.ts";
import { PASSWORD, post, setStage, signIn, signUp } from "../harness/stage.ts";
import { median, quantile } from "../harness/statistics.ts";
import { record, report } from "../table.ts";

const PEOPLE = 64;
const CLIENTS = 8;
const SESSIONS = 32;
const STORM = 500;
/** Where the web app would be: passkeys belong to an origin. */
const ORIGIN = "http://gatehouse.test";
const JSON_POST = { method: "POST", headers: { "content-type": "application/json" } } as const;
const say = (line: string) => process.stdout.write(`${line}\n`);

execFileSync("npm", ["ci", "--prefix", "bench/peers/better-auth", "--no-audit", "--no-fund"], {
  stdio: "ignore",
});
const stage = await setStage();
const { sub, sid } = decodeJwt(stage.accessToken) as { sub: string; sid: string };
const bareEnv = { DATABASE_URL: stage.databaseUrl, USER_ID: sub, SESSION_ID: sid };
const peerEnv = { DATABASE_URL: await peerDatabase() };
const bare = await startServer(["bench/peers/bare-fastify.ts"], bareEnv);
const peer = await startServer(["bench/peers/better-auth/server.ts"], peerEnv);
/** The same servers on all cores. */
const everywhere = await setStage({}, "all");
const peers = {
  bare: await startServer(
    ["bench/peers/bare-fastify.ts"],
    { ...bareEnv, DATABASE_URL: everywhere.databaseUrl },
    "all",
  ),
  peer: await startServer(["bench/peers/better-auth/server.ts"], peerEnv, "all"),
};
try {
  await profile();
  await passwords();
  await refresh();
  await passkeys();
  await storm();
} finally {
  await closeAll();
}

/** Creates a schema for the tables of better-auth, whose names are the same. */
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
  await post(peer, "/api/auth/sign-up/email", {
    email: "ann@example.com",
    password: PASSWORD,
    name: "Ann",
  });
  const signedIn = await post(peer, "/api/auth/sign-in/email", {
    email: "ann@example.com",
    password: PASSWORD,
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

/** Logins and registrations of 8 clients, with servers on all cores. */
async function passwords(): Promise<void> {
  const emails = Array.from({ length: PEOPLE }, () => `${randomUUID()}@example.com`);
  for (const email of emails) {
    await signUp(everywhere.server, email);
    await post(peers.peer, "/api/auth/sign-up/email", { email, password: PASSWORD, name: "Ann" });
  }
  const signIns = (path: string) =>
    emails.map((email) => ({
      ...JSON_POST,
      path,
      body: JSON.stringify({ email, password: PASSWORD }),
    }));
  const account = { password: PASSWORD, name: "Ann", acceptTerms: true };
  const registers = (path: string) => [
    { ...JSON_POST, path, body: JSON.stringify({ ...account, email: "[<id>]@example.com" }) },
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
      if (failed > 0) throw new Error(`${failed} requests to ${name} failed: its figures are void`);
      seen[name]?.push(perSecond);
    };
    for (let round = 0; round < ROUNDS; round++) {
      const alone = execFileSync(process.execPath, ["bench/peers/argon2.ts", String(SECONDS)], {
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
  const tokens: string[] = [];
  while (tokens.length < SESSIONS)
    tokens.push((await signIn(stage.server, stage.credentials.email)).refreshToken);
  for (const [name, server, own] of [
    ["bare UPDATE and two signatures", bare, tokens.slice()],
    ["Gatehouse", stage.server, tokens],
  ] as const) {
    const rounds = { "per second": [] as number[], "CPU µs": [] as number[] };
    for (let round = 0; round < ROUNDS; round++) {
      const before = server.cpuMs();
      const perSecond = await refreshLoad(server.url, own, SECONDS);
      rounds["per second"].push(perSecond);
      rounds["CPU µs"].push(((server.cpuMs() - before) * 1000) / (perSecond * SECONDS));
    }
    for (const [figure, values] of Object.entries(rounds)) record(row, figure, name, values);
  }
}

/** Sign-ins with passkeys: each asks for options, signs, and is verified. */
async function passkeys(): Promise<void> {
  const row = `passkey sign-in, ${CLIENTS} clients`;
  if (!isChosen(row)) return;
  const { server } = await setStage({ PUBLIC_URL: ORIGIN });
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, async (_, i) => {
      const { accessToken } = await signUp(server, `passkey-${i}@example.com`);
      const emulator = new WebAuthnEmulator();
      const headers = { authorization: `Bearer ${accessToken}` };
      const { options } = await jsonOf("/user/passkeys/options", { purpose: "register" }, headers);
      const credential = emulator.createJSON(ORIGIN, options);
      await jsonOf("/user/passkeys", { credential }, headers);
      return emulator;
    }),
  );
  async function jsonOf(path: string, body: object, headers: Record<string, string> = {}) {
    // biome-ignore lint/suspicious/noExplicitAny: options of WebAuthn
    return (await (await post(server, path, body, headers)).json()) as any;
  }
  const signInWith = async (emulator: WebAuthnEmulator) => {
    const { options } = await jsonOf("/auth/passkey-options", {});
    await jsonOf("/auth/verify-passkey", { credential: emulator.getJSON(ORIGIN, options) });
  };
  const rounds = { "per second": [] as number[], "CPU µs": [] as number[] };
  for (let round = -1; round < ROUNDS; round++) {
    const before = server.cpuMs();
    const until = performance.now() + SECONDS * 1000;
    let count = 0;
    await Promise.all(
      clients.map(async (emulator) => {
        for (; performance.now() < until; count++) await signInWith(emulator);
      }),
    );
    if (round < 0) continue; // warm up
    rounds["per second"].push(count / SECONDS);
    rounds["CPU µs"].push(((server.cpuMs() - before) * 1000) / count);
  }
  for (const [figure, values] of Object.entries(rounds)) record(row, figure, "Gatehouse", values);
}

/** Profile reads, one at a time, during many concurrent logins. */
async function storm(): Promise<void> {
  const row = `profile during ${STORM} logins at once`;
  if (!isChosen(row)) return;
  const headers = { authorization: `Bearer ${stage.accessToken}` };
  const logins = Array.from({ length: STORM }, (_, i) =>
    fetch(`${stage.server.url}/auth/login`, {
      ...JSON_POST,
      body: JSON.stringify({ email: `storm-${i}@example.com`, password: PASSWORD }),
    }).then(({ status }) => status),
  );
  const latencies: number[] = [];
  let over = false;
  const statuses = Promise.all(logins).finally(() => {
    over = true;
  });
  while (!over) {
    const started = performance.now();
    await (await fetch(`${stage.server.url}/user/profile`, { headers })).text();
    latencies.push(performance.now() - started);
  }
  const counts = Object.entries(Object.groupBy(await statuses, String)).map(
    ([status, all]) => `${status}: ${all?.length}`,
  );
  const p99 = quantile(latencies, 0.99);
  record(row, "p99 ms", "Gatehouse", [p99]);
  say(`\n${STORM} concurrent logins (${counts.join(", ")})`);
  say(
    `  profile reads meanwhile   ${latencies.length} reads, p50 ${median(latencies).toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`,
  );
}
