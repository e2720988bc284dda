/**
 * Attacks of one address or one user on both ports: `npm run bench -- attacks`. While each of them
 * lasts, four kinds of other callers read a profile, sign in, chat and ask for health at a steady
 * pace, half of them over gRPC. Prints their latencies (p50 / p99 in ms), the CPU (in cores) and
 * the largest memory that the processes used, and what the attacker got. Everything stays on
 * 127.0.0.0/8 and stops by itself. BENCH_ONLY chooses attacks by a part of their names,
 * BENCH_ROUNDS repeats each: the best round counts, since the clients share the cores with the
 * server.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { constants, setPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AuthService } from "../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Health } from "../gen/health/v1/health_pb.ts";
import { closeAll, closing } from "./closing.ts";
import { freePort } from "./ports.ts";
import { isChosen } from "./results.ts";
import { type Server, startServer } from "./server.ts";
import { createDatabase } from "./stage.ts";

const ATTACK_MS = Number(process.env.BENCH_SECONDS ?? 10) * 1_000;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const PACE_MS = 40;
/**
 * Every second time: so many logins that p99 is not the slowest one. With a hash of 10 ms they use
 * an eighth of a core.
 */
const LOGIN_PACE = 2;
const USERS = 10;
const CALLERS = ["profile", "login", "chat", "health"] as const;
const ATTACKS = [
  "none",
  "C1 gzip bombs without a token",
  "C1 long lists of one user",
  "H1 headers and one byte",
  "H1 health watches",
  "H1 streams and unread exports of one user",
  "H2 reflection and documents with brotli",
  "H3 1.5 MB/s of bodies without a token",
  "H3 1.5 MB/s of bodies of one user",
  "M1 405 logins a second",
  "M8 405 logins a second from a /48",
  "M12 405 logins a second through a proxy",
].filter(isChosen);
const conversation = {
  provider: "provider-a",
  messages: [{ role: "user", content: "Say a few words, please." }],
};

type Target = { url: string; grpcUrl: string; processes: Server[]; databaseUrl: string };
type Account = { email: string; password: string; token: string };
type Latencies = Record<(typeof CALLERS)[number], number[]>;

const agent = new Agent({ keepAlive: true });
let addresses = 0;
/** The address of another client, behind the trusted proxy that all of them use. */
const elsewhere = () => ({
  "x-forwarded-for": `10.0.${(addresses >> 8) & 255}.${addresses++ & 255}`,
});

try {
  const upstream = await startServer(["bench/ai/upstream.ts"], {}, "all");
  process.stdout.write(
    "\n| heap, processes | attack | profile | login | chat | health | CPU | peak memory, MiB | others failed | attacker got |\n",
  );
  process.stdout.write("|---|---|---|---|---|---|---|---|---|---|\n");
  for (const heapMb of [256, 512]) {
    for (const mode of ["one", "apart"] as const) {
      const target = await start(heapMb, mode, upstream.url);
      for (const attack of ATTACKS) await measure(`${heapMb} MB, ${mode}`, target, attack);
      for (const each of target.processes) await each.close();
    }
  }
} finally {
  await closeAll();
}

async function start(heapMb: number, mode: "one" | "apart", provider: string): Promise<Target> {
  const [port, grpcPort, internalPort] = await Promise.all([freePort(), freePort(), freePort()]);
  const { url: databaseUrl } = await createDatabase();
  const env = {
    PORT: String(port),
    GRPC_PORT: String(grpcPort),
    DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-attacks-")),
    DATABASE_URL: databaseUrl,
    SECRET_KEY: Buffer.alloc(32, 1).toString("base64"),
    TRUST_PROXY: "127.0.0.1",
    INTERNAL_SECRET: "between-gateway-and-services",
    LOG_LEVEL: "error",
    OPENAI_API_KEY: "bench-key",
    OPENAI_BASE_URL: `${provider}/v1`,
  };
  const heap = `--max-old-space-size=${heapMb}`;
  const internal = `tcp://127.0.0.1:${internalPort}`;
  const processes =
    mode === "one"
      ? [await startServer([heap, "gateway/main.ts"], env, "all")]
      : [
          await startServer(
            [heap, "services/main.ts"],
            { ...env, INTERNAL_URL: internal, LOG_LEVEL: "info" },
            "all",
          ),
          await startServer([heap, "gateway/main.ts"], { ...env, SERVICES_URL: internal }, "all"),
        ];
  return {
    url: `http://127.0.0.1:${port}`,
    grpcUrl: `http://127.0.0.1:${grpcPort}`,
    processes,
    databaseUrl,
  };
}

function ask({ url }: Target, method: string, path: string, body?: object, token?: string) {
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const headers = {
      "content-type": "application/json",
      ...elsewhere(),
      ...(token && { authorization: `Bearer ${token}` }),
    };
    const sending = request(url + path, { method, headers, agent }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      response
        .on("end", () => resolve({ status: response.statusCode ?? 0, text }))
        .on("error", reject);
    });
    sending.on("error", reject).end(body && JSON.stringify(body));
  });
}

async function signUp(target: Target, name: string): Promise<Account> {
  const credentials = { email: `${name}@example.com`, password: "Correct-horse-1" };
  await ask(target, "POST", "/auth/register", { ...credentials, name: "Name", acceptTerms: true });
  const { text } = await ask(target, "POST", "/auth/login", credentials);
  return { ...credentials, token: JSON.parse(text).accessToken };
}

/** What the other callers do, over REST and over gRPC. */
function othersOf(target: Target, users: Account[]) {
  const transport = createGrpcTransport({ baseUrl: target.grpcUrl });
  const [auth, user, ai, health] = [AuthService, UserService, AIService, Health].map((service) =>
    createClient(service as never, transport),
  ) as [
    ReturnType<typeof createClient<typeof AuthService>>,
    ReturnType<typeof createClient<typeof UserService>>,
    ReturnType<typeof createClient<typeof AIService>>,
    ReturnType<typeof createClient<typeof Health>>,
  ];
  const by = (token?: string) => ({
    headers: { ...elsewhere(), ...(token && { authorization: `Bearer ${token}` }) },
  });
  const ok = async (answer: Promise<{ status: number }>) => {
    const { status } = await answer;
    if (status !== 200) throw new Error(String(status));
  };
  const one = (i: number) => users[i % users.length] as Account;
  const callers: Record<(typeof CALLERS)[number], ((i: number) => Promise<unknown>)[]> = {
    profile: [
      (i) => ok(ask(target, "GET", "/user/profile", undefined, one(i).token)),
      (i) => user.getProfile({}, by(one(i).token)),
    ],
    login: [
      (i) => ok(ask(target, "POST", "/auth/login", one(i))),
      (i) => auth.login({ email: one(i).email, password: one(i).password }, by()),
    ],
    chat: [
      (i) => ok(ask(target, "POST", "/ai/chat", conversation, one(i).token)),
      (i) => ai.chat(conversation, by(one(i).token)),
    ],
    health: [() => ok(ask(target, "GET", "/health/ready")), () => health.check({}, by())],
  };
  return callers;
}

async function measure(setup: string, target: Target, attack: string): Promise<void> {
  const rounds: Awaited<ReturnType<typeof playRound>>[] = [];
  for (let round = 0; round < ROUNDS; round++) rounds.push(await playRound(target, attack));
  const worst = ({ latencies }: (typeof rounds)[number]) =>
    Math.max(...CALLERS.map((name) => at(latencies[name], 0.99)));
  const [best] = rounds.toSorted((a, b) => worst(a) - worst(b)) as [(typeof rounds)[number]];
  const cells = CALLERS.map((name) =>
    [0.5, 0.99].map((share) => at(best.latencies[name], share).toFixed(0)).join(" / "),
  );
  const memory = target.processes.map((_, i) =>
    Math.max(...rounds.map(({ peaks }) => peaks[i] ?? 0)).toFixed(0),
  );
  const failed = rounds.reduce((sum, each) => sum + each.failed.length, 0);
  const why = [...new Set(rounds.flatMap((each) => each.failed))].join("; ");
  process.stdout.write(
    `| ${[setup, attack, ...cells, best.cores.toFixed(2), memory.join(" + "), failed ? `${failed}: ${why}` : "0", best.statuses].join(" | ")} |\n`,
  );
}

/** Has the others call while an attack lasts. */
async function playRound(target: Target, attack: string) {
  const users: Account[] = [];
  for (let i = 0; i < USERS; i++) users.push(await signUp(target, `user${addresses}`));
  const attacker = await signUp(target, `attacker${addresses}`);
  const callers = othersOf(target, users);
  const latencies: Latencies = { profile: [], login: [], chat: [], health: [] };
  const failed: string[] = [];
  // Connections and code of this client are in use before it measures.
  for (let i = 0; i < 20; i++) await Promise.all(CALLERS.map((name) => callers[name][i % 2]?.(i)));
  for (const { pid } of target.processes) writeFileSync(`/proc/${pid}/clear_refs`, "5"); // the peak begins anew
  const attacking = spawn(
    process.execPath,
    [
      "bench/attacks-attacker.ts",
      attack,
      target.url,
      target.grpcUrl,
      String(ATTACK_MS + 1_000),
      attacker.token,
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  // It has a machine of its own in life. Here it must not take the cores from the server and the
  // others.
  setPriority(attacking.pid as number, constants.priority.PRIORITY_LOW);
  const stop = closing(async () => void attacking.kill());
  let statuses = "";
  attacking.stdout.setEncoding("utf8").on("data", (part: string) => {
    statuses += part;
  });
  await sleep(1_000);
  const pending: Promise<void>[] = [];
  const cpuMs = () => target.processes.reduce((sum, each) => sum + each.cpuMs(), 0);
  const [beganAt, cpuBefore] = [performance.now(), cpuMs()];
  const endsAt = performance.now() + ATTACK_MS;
  for (let i = 0; performance.now() < endsAt; i++) {
    for (const name of CALLERS) {
      if (name === "login" && i % LOGIN_PACE !== 0) continue;
      const call = callers[name][(name === "login" ? i / LOGIN_PACE : i) % 2] as (
        i: number,
      ) => Promise<unknown>;
      const began = performance.now();
      const seen = () => void latencies[name].push(performance.now() - began);
      pending.push(call(i).then(seen, (error) => void failed.push(`${name} ${error.message}`)));
    }
    await sleep(PACE_MS);
  }
  const cores = (cpuMs() - cpuBefore) / (performance.now() - beganAt);
  await Promise.all(pending);
  if (attacking.exitCode === null) await once(attacking, "close");
  await stop();
  return {
    latencies,
    failed,
    cores,
    statuses: statuses.replaceAll('"', ""),
    peaks: target.processes.map(peakMiB),
  };
}

function at(values: number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
}

/** The largest resident memory since it was last reset. */
function peakMiB({ pid }: Server): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}
