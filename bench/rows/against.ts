/**
 * This checkout ("now") beside another commit or folder ("before"), BENCH_REF, and a fixed old
 * commit ("anchor"), BENCH_ANCHOR, which shows what many small changes have cost together. All use
 * the same PostgreSQL and Redis servers and are measured in turns. Figures are medians of the
 * rounds, ratios are medians of each round's ratio.
 */
import { execFileSync } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Contender, type Kind, load as loadAi, openStreams } from "../harness/ai-load.ts";
import { closeAll, closing } from "../harness/cleanup.ts";
import { ALL_CORES, pinLoad } from "../harness/cores.ts";
import { load } from "../harness/http-load.ts";
import { freePort } from "../harness/ports.ts";
import { refreshLoad } from "../harness/refresh-load.ts";
import { type Server, startServer } from "../harness/server.ts";
import { isChosen, REDIS_URL, ROUNDS, SECONDS } from "../harness/settings.ts";
import { createDatabase, PASSWORD, signUp } from "../harness/stage.ts";
import { median } from "../harness/statistics.ts";

const USERS = 64;
const OPEN_STREAMS = 500;
const MESSAGES = [{ role: "user", content: "Say a few words, please, and then a few more." }];
const emailOf = (user: number) => `user-${user}@example.com`;
const say = (line: string) => process.stdout.write(`${line}\n`);

const AI_ROWS: { name: string; kind: Kind; count: number; atOnce: number }[] = [
  { name: "chat, 1 at once", kind: "chat", count: 300, atOnce: 1 },
  { name: "chat, 32 at once", kind: "chat", count: 2_000, atOnce: 32 },
  { name: "stream of 50, 256 at once", kind: "stream", count: 768, atOnce: 256 },
];

/** The first commit whose figures `docs/performance.md` compares with. */
const ANCHOR = process.env.BENCH_ANCHOR ?? "2c58eb1";
/** Calls right after a start: while V8 has only interpreted the code, and while it compiles it. */
const COLD_CALLS = { "first 2,000": 2_000, "next 8,000": 8_000 };
const COLD_STREAMS = { "first 512": 512 };

/** A checkout under test, with its process on one core and its signed-in users. */
type Side = {
  name: string;
  root: string;
  env: Record<string, string>;
  inOne: Server;
  tokens: string[];
  refresh: string[];
};

pinLoad("1");
const run = randomInt(256);
const upstream = await startServer(["bench/peers/provider.ts"], {}, 1);
try {
  const sides = [
    await open("before", await checkout(process.env.BENCH_REF ?? "HEAD~1")),
    await open("now", resolve(".")),
  ];
  if (isCommit(ANCHOR)) sides.unshift(await open("anchor", await checkout(ANCHOR)));
  await httpRow("profile, 32 clients", sides, (side) => ({
    path: "/user/profile",
    headers: { authorization: `Bearer ${side.tokens[0]}` },
  }));
  await httpRow("liveness, 32 clients", sides, () => ({ path: "/health/live" }));
  await row("refresh, 16 sessions", sides, (side) =>
    withCpu(side.inOne, () => refreshLoad(side.inOne.url, side.refresh, SECONDS)),
  );
  await loginRow(sides);
  const inOne = sides.map((side) => ai(side.name, [side.inOne], side.tokens));
  await aiRows("", inOne);
  if (AI_ROWS.some(({ name }) => isChosen(`apart, ${name}`)))
    await aiRows("apart, ", await Promise.all(sides.map(startApart)));
  await memoryRow(inOne);
  for (const side of sides) await side.inOne.close();
  await coldRows(sides);
  await startRow(sides);
} finally {
  await closeAll();
}

/** Whether the history has a commit: shallow clones have no old ones. */
function isCommit(ref: string): boolean {
  try {
    execFileSync("git", ["cat-file", "-e", `${ref}^{commit}`], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/**
 * Checks a commit out in a temporary folder. It gets the packages of this checkout if it locks the
 * same ones, and otherwise its own.
 */
async function checkout(ref: string): Promise<string> {
  if (existsSync(join(ref, "gateway/main.ts"))) return resolve(ref);
  const root = join(mkdtempSync(join(tmpdir(), "gatehouse-against-")), "tree");
  execFileSync("git", ["worktree", "add", "--detach", root, ref], { stdio: "ignore" });
  closing(async () => {
    execFileSync("git", ["worktree", "remove", "--force", root], { stdio: "ignore" });
    rmSync(root, { recursive: true, force: true });
  });
  const lockOf = (folder: string) => readFileSync(join(folder, "package-lock.json"), "utf8");
  if (lockOf(root) === lockOf("."))
    symlinkSync(resolve("node_modules"), join(root, "node_modules"));
  else
    execFileSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], {
      cwd: root,
      stdio: "ignore",
    });
  return root;
}

async function open(name: string, root: string): Promise<Side> {
  const { url: databaseUrl } = await createDatabase();
  const env = {
    DATABASE_URL: databaseUrl,
    REDIS_URL,
    DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-bench-")),
    RATE_LIMITS: "off",
    SECRET_KEY: randomBytes(32).toString("base64"),
    INTERNAL_SECRET: randomBytes(32).toString("base64url"),
    TRUST_PROXY: "127.0.0.1",
    ACCESS_TOKEN_TTL: "2h",
    LOG_LEVEL: "warn",
    OPENAI_API_KEY: "bench-key",
    OPENAI_BASE_URL: `${upstream.url}/v1`,
  };
  const inOne = await startServer(["gateway/main.ts"], env, 0, root);
  const signedIn = await Promise.all(
    Array.from({ length: USERS }, (_, i) => signUp(inOne, emailOf(i), `10.${run}.0.${i}`)),
  );
  const tokens = signedIn.map(({ accessToken }) => accessToken);
  return {
    name,
    root,
    env,
    inOne,
    tokens,
    refresh: signedIn.slice(0, 16).map(({ refreshToken }) => refreshToken),
  };
}

async function startApart({ name, root, env, tokens }: Side): Promise<Contender> {
  const own = { INTERNAL_URL: `tcp://127.0.0.1:${await freePort()}` };
  const hasListener = existsSync(join(root, "services/servers/internal-server.ts"));
  const services = await startServer(
    ["services/main.ts"],
    { ...env, ...own, LOG_LEVEL: "info" },
    0,
    root,
  );
  const { DATABASE_URL: _, ...gatewayEnv } = env;
  const SERVICES_URL = hasListener ? own.INTERNAL_URL : services.url; // earlier commits have only gRPC
  const gateway = await startServer(["gateway/main.ts"], { ...gatewayEnv, SERVICES_URL }, 0, root);
  return ai(name, [gateway, services], tokens);
}

function ai(name: string, servers: [Server, ...Server[]], tokens: string[]): Contender {
  const ask = (kind: Kind, turn: number) => ({
    path: kind === "chat" ? "/ai/chat" : "/ai/stream",
    headers: {
      authorization: `Bearer ${tokens[turn % tokens.length]}`,
      "x-forwarded-for": `10.${run}.1.${turn % 250}`,
    },
    body: JSON.stringify({
      provider: "provider-a",
      messages: kind === "open" ? [...MESSAGES, { role: "user", content: "stay open" }] : MESSAGES,
    }),
  });
  return { name, url: servers[0].url, servers, ask };
}

type Figures = Record<string, number>;

/**
 * Measures all sides in turns. Prints the median of each figure of each side, and of the ratios of
 * the last one to the others.
 */
async function row<T extends { name: string }>(
  name: string,
  sides: T[],
  measure: (side: T) => Promise<Figures>,
): Promise<void> {
  if (!isChosen(name)) return;
  const seen = sides.map(() => [] as Figures[]);
  for (const side of sides) await measure(side); // warm up
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, side] of sides.entries()) seen[i]?.push(await measure(side));
  }
  const now = seen.at(-1) ?? [];
  for (const figure of Object.keys(now[0] ?? {})) {
    const of = (rounds: Figures[] = []) => rounds.map((each) => each[figure] as number);
    const values = seen.map((rounds) => median(of(rounds)).toFixed(2).padStart(10)).join("");
    const ratios = seen.slice(0, -1).map((other, i) => {
      const own = of(now).map((value, round) => value / (of(other)[round] as number));
      const spread = `${Math.min(...own).toFixed(2)}–${Math.max(...own).toFixed(2)}`;
      return `   now/${sides[i]?.name} ${median(own).toFixed(3)} (${spread})`;
    });
    say(`${name.padEnd(34)}${figure.padEnd(14)}${values}${ratios.join("")}`);
  }
}

async function withCpu(server: Server, work: () => Promise<number>): Promise<Figures> {
  const before = server.cpuMs();
  const perSecond = await work();
  return {
    "per second": perSecond,
    "CPU µs": ((server.cpuMs() - before) * 1000) / (perSecond * SECONDS),
  };
}

type Request = { path: string; headers?: Record<string, string> };

function httpRow(name: string, sides: Side[], request: (side: Side) => Request): Promise<void> {
  return row(name, sides, async (side) => {
    const { perSecond, cpuMicros, failed } = await load(
      { server: side.inOne, request: request(side) },
      SECONDS,
    );
    if (failed > 0) throw new Error(`${name}: ${failed} requests failed`);
    return { "per second": perSecond, "CPU µs": cpuMicros };
  });
}

/** Logins of 8 clients, with processes on all cores. */
async function loginRow(sides: Side[]): Promise<void> {
  if (!isChosen("login")) return;
  const requests = Array.from({ length: USERS }, (_, i) => ({
    method: "POST" as const,
    path: "/auth/login",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email: emailOf(i), password: PASSWORD }),
  }));
  const everywhere = await Promise.all(
    sides.map(async (side) => ({
      name: side.name,
      server: await startServer(["gateway/main.ts"], side.env, "all", side.root),
    })),
  );
  pinLoad(ALL_CORES);
  await row("login, 8 clients, all cores", everywhere, async ({ server }) => {
    const { perSecond, cpuMicros, failed } = await load(
      { server, request: { path: "/", requests } },
      SECONDS,
      8,
    );
    if (failed > 0) throw new Error(`${failed} logins failed`);
    return { "per second": perSecond, "CPU µs": cpuMicros };
  });
  pinLoad("1");
  for (const { server } of everywhere) await server.close();
}

async function aiRows(prefix: string, sides: Contender[]): Promise<void> {
  const chosen = AI_ROWS.filter(({ name }) => isChosen(prefix + name));
  if (chosen.length > 0) for (const side of sides) await loadAi(side, "chat", 5_000, 32); // warm-up
  const measure = (kind: Kind, count: number, atOnce: number) => async (side: Contender) => {
    const { ms, p99, cpuMicros } = await loadAi(side, kind, count, atOnce);
    return { "CPU µs": cpuMicros, "p50 ms": ms, "p99 ms": p99 };
  };
  for (const { name, kind, count, atOnce } of chosen)
    await row(prefix + name, sides, measure(kind, count, atOnce));
}

/** Resident memory per open stream. */
function memoryRow(sides: Contender[]): Promise<void> {
  return row("memory, open streams", sides, async (side) => {
    const rss = () => side.servers.reduce((sum, server) => sum + server.rssKiB(), 0);
    const before = rss();
    const close = await openStreams(side, OPEN_STREAMS);
    await sleep(500);
    const each = (rss() - before) / OPEN_STREAMS;
    close();
    await sleep(500);
    return { "KiB each": Math.max(each, 0.1) };
  });
}

/**
 * CPU of the first calls after a start, by a new process in each round. The users have signed in at
 * an earlier process, so nothing is warm.
 */
async function coldRows(sides: Side[]): Promise<void> {
  type Run = (side: Side, server: Server, count: number) => Promise<{ cpuMicros: number }>;
  const coldRow = (name: string, calls: Record<string, number>, run: Run) =>
    row(name, sides, async (side) => {
      const server = await startServer(["gateway/main.ts"], side.env, 0, side.root);
      const figures: Figures = {};
      for (const [figure, count] of Object.entries(calls))
        figures[figure] = (await run(side, server, count)).cpuMicros;
      await server.close();
      return figures;
    });
  await coldRow("cold CPU µs, profile, 32 clients", COLD_CALLS, (side, server, amount) => {
    const headers = { authorization: `Bearer ${side.tokens[0]}` };
    return load({ server, request: { path: "/user/profile", headers, amount } }, SECONDS);
  });
  await coldRow("cold CPU µs, chat, 32 at once", COLD_CALLS, (side, server, count) =>
    loadAi(ai(side.name, [server], side.tokens), "chat", count, 32),
  );
  await coldRow("cold CPU µs, stream, 256 at once", COLD_STREAMS, (side, server, count) =>
    loadAi(ai(side.name, [server], side.tokens), "stream", count, 256),
  );
}

/** Time from start to ready, and resident memory at rest, on PostgreSQL and embedded. */
async function startRow(sides: Side[]): Promise<void> {
  const measure = (changes: (side: Side) => Record<string, string>) => async (side: Side) => {
    const began = performance.now();
    const server = await startServer(
      ["gateway/main.ts"],
      { ...side.env, ...changes(side) },
      "all",
      side.root,
    );
    const ms = performance.now() - began;
    await sleep(1_000);
    const mib = server.rssKiB() / 1024;
    await server.close();
    return { "start ms": ms, "RSS MiB": mib };
  };
  await row(
    "start, PostgreSQL",
    sides,
    measure(() => ({})),
  );
  await row(
    "start, embedded",
    sides,
    measure(() => ({ DATABASE_URL: "", REDIS_URL: "" })),
  );
}
