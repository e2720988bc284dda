/**
 * A flood through nginx with the configuration of deploy/proxy: `npm run bench -- flood`. One
 * address floods for 15 seconds while four others read a profile, sign in, chat and ask for health
 * at a steady pace. Prints the latency of the others without and with each flood. Everything stays
 * on 127.0.0.0/8 and stops by itself.
 */
import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { closeAll, closing } from "./closing.ts";
import { freePort } from "./ports.ts";
import { startServer } from "./server.ts";

const FLOOD_MS = 15_000;
const PACE_MS = 100;
const FLOODS = [
  "half a header",
  "half a body",
  "large bodies without a token",
  "logins",
  "unknown routes",
];
const PASSWORD = "Correct-horse-1";

const agents = new Map<string, Agent>();
let calls = 0;

type Answer = { status: number; text: string };

const folder = mkdtempSync(join(tmpdir(), "gatehouse-flood-"));
const [port, grpcPort, tlsPort, grpcTlsPort] = await Promise.all([
  freePort(),
  freePort(),
  freePort(),
  freePort(),
]);
try {
  const upstream = await startServer(["bench/ai/upstream.ts"], {}, "all");
  await startServer(
    ["--max-old-space-size=512", "gateway/main.ts"],
    serverEnv(upstream.url),
    "all",
  );
  await startNginx();
  const others = await signInOthers();
  report("no flood", await measure(others));
  for (const flood of FLOODS) report(flood, await measure(others, flood));
} finally {
  await closeAll();
}

function serverEnv(provider: string): Record<string, string> {
  return {
    PORT: String(port),
    GRPC_PORT: String(grpcPort),
    DATA_DIR: folder,
    DATABASE_URL: process.env.BENCH_DATABASE_URL ?? "memory:",
    SECRET_KEY: randomBytes(32).toString("base64"),
    TRUST_PROXY: "127.0.0.1",
    PUBLIC_URL: "https://api.example.com",
    LOG_LEVEL: "error",
    OPENAI_API_KEY: "bench-key",
    OPENAI_BASE_URL: `${provider}/v1`,
  };
}

/** nginx with the documented configuration, on free ports and with a certificate of its own. */
async function startNginx(): Promise<void> {
  const [crt, key] = [join(folder, "gatehouse.crt"), join(folder, "gatehouse.key")];
  const subject = ["-subj", "/CN=api.example.com", "-days", "1", "-nodes"];
  execFileSync(
    "openssl",
    ["req", "-x509", "-newkey", "rsa:2048", ...subject, "-keyout", key, "-out", crt],
    {
      stdio: "ignore",
    },
  );
  const conf = readFileSync("deploy/proxy/nginx.conf", "utf8")
    .replaceAll("/etc/nginx/gatehouse.crt", crt)
    .replaceAll("/etc/nginx/gatehouse.key", key)
    .replaceAll("127.0.0.1:3000", `127.0.0.1:${port}`)
    .replaceAll("127.0.0.1:50051", `127.0.0.1:${grpcPort}`)
    .replaceAll("listen 443", `listen 127.0.0.1:${tlsPort}`)
    .replaceAll("listen 8443", `listen 127.0.0.1:${grpcTlsPort}`);
  const file = join(folder, "nginx.conf");
  writeFileSync(
    file,
    `daemon off;\npid ${folder}/nginx.pid;\nerror_log ${folder}/error.log;\n${conf.replace("http {", "http {\n    access_log off;")}`,
  );
  const nginx = spawn("nginx", ["-p", folder, "-c", file], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  closing(async () => void nginx.kill("SIGTERM"));
  for (let i = 0; i < 50; i++) {
    await sleep(100);
    if (
      await ask("127.0.1.1", "GET", "/health/live").then(
        ({ status }) => status === 200,
        () => false,
      )
    )
      return;
  }
  throw new Error(`nginx does not answer: ${readFileSync(join(folder, "error.log"), "utf8")}`);
}

function agentOf(localAddress: string): Agent {
  const agent =
    agents.get(localAddress) ??
    new Agent({ keepAlive: true, localAddress, rejectUnauthorized: false });
  agents.set(localAddress, agent);
  return agent;
}

function ask(
  from: string,
  method: string,
  path: string,
  body?: object | string,
  token?: string,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = {
      host: "api.example.com",
      "content-type": "application/json",
      ...(token && { authorization: `Bearer ${token}` }),
    };
    const sending = request(
      { port: tlsPort, host: "127.0.0.1", method, path, headers, agent: agentOf(from) },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        response
          .on("end", () => resolve({ status: response.statusCode ?? 0, text }))
          .on("error", reject);
      },
    );
    sending.on("error", reject).end(typeof body === "object" ? JSON.stringify(body) : body);
  });
}

type Caller = { name: string; call: (i: number) => Promise<Answer> };

async function signInOthers(): Promise<Caller[]> {
  const credentials = { email: "ann@example.com", password: PASSWORD };
  await ask("127.0.1.1", "POST", "/auth/register", {
    ...credentials,
    name: "Ann",
    acceptTerms: true,
  });
  const { accessToken } = JSON.parse(
    (await ask("127.0.1.1", "POST", "/auth/login", credentials)).text,
  );
  const chat = {
    provider: "provider-a",
    messages: [{ role: "user", content: "Say a few words, please." }],
  };
  return [
    {
      name: "profile",
      call: () => ask("127.0.1.1", "GET", "/user/profile", undefined, accessToken),
    },
    // each from an address and to an account of its own: a wrong password costs the same hash
    {
      name: "login",
      call: (i) =>
        ask(`127.0.2.${1 + (i % 200)}`, "POST", "/auth/login", {
          email: `u${i}@example.com`,
          password: PASSWORD,
        }),
    },
    { name: "chat", call: () => ask("127.0.1.3", "POST", "/ai/chat", chat, accessToken) },
    { name: "health", call: () => ask("127.0.1.4", "GET", "/health/ready") },
  ];
}

/**
 * Has the others call at a steady pace while a flood is on.
 * @returns the latencies of each in ms, and failed answers
 */
async function measure(others: Caller[], flood?: string) {
  const over = AbortSignal.timeout(FLOOD_MS);
  const seen = new Map(others.map(({ name }) => [name, { ms: [] as number[], failed: 0 }]));
  if (flood) attack(flood);
  const pending: Promise<unknown>[] = [];
  while (!over.aborted) {
    for (const { name, call } of others) {
      const own = seen.get(name) as { ms: number[]; failed: number };
      if (name !== "health" && calls % 10 !== 0 && name !== "login") continue; // within the limit of 100 calls a minute
      const began = performance.now();
      const done = ({ status }: Answer) => {
        own.ms.push(performance.now() - began);
        if (status >= 429) own.failed++;
      };
      pending.push(call(calls).then(done, () => own.failed++));
    }
    calls++;
    await sleep(PACE_MS);
  }
  await Promise.all(pending);
  return seen;
}

/** Floods from a process of its own, so that the callers here are not slowed by it. */
function attack(kind: string): void {
  const args = ["bench/flood-attacker.ts", kind, String(tlsPort), String(FLOOD_MS)];
  const attacker = spawn(process.execPath, args, { stdio: "inherit" });
  closing(async () => void attacker.kill());
}

function report(name: string, seen: Awaited<ReturnType<typeof measure>>): void {
  process.stdout.write(`\n${name}\n`);
  for (const [caller, { ms, failed }] of seen) {
    const sorted = ms.toSorted((a, b) => a - b);
    const at = (share: number) =>
      (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(0).padStart(6);
    process.stdout.write(
      `  ${caller.padEnd(10)} ${String(ms.length).padStart(4)} calls   p50 ${at(0.5)} ms   p99 ${at(0.99)} ms   refused or failed ${failed}\n`,
    );
  }
}
