/**
 * `npm run bench -- proxy-flood`: a flood of slow connections against docs/proxy/nginx.conf, for 20 seconds, while one
 * client calls GET /user/profile. Half of the 2,000 connections never finish their headers, half never their body.
 * Needs `nginx` and `openssl`. Prints the latencies before and during the flood; exits with 1 if p99 exceeds 250 ms.
 */
import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import type { TcpNetConnectOpts } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { type ConnectionOptions, connect } from "node:tls";
import { closeAll, closing } from "./closing.ts";
import { startServer } from "./server.ts";
import { post } from "./stage.ts";

const CONNECTIONS = 2_000;
const BASELINE_MS = 5_000;
const FLOOD_MS = 20_000;
/** Pause between two requests of the measuring client, in ms. */
const PACE_MS = 20;
const TARGET_P99_MS = 250;
/** Connections per client address: the flood comes from 127.0.1.1, 127.0.1.2, … */
const PER_ADDRESS = 50;
/** Pause between two bytes of a connection, in ms. */
const DRIP_MS = 1_000;
const REST_PORT = 14_443;
const GRPC_PORT = 14_843;

if (process.argv[2] === "flood") await flood();
else await main();

async function main(): Promise<void> {
  const env = {
    DATABASE_URL: "memory:",
    DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-flood-")),
    RATE_LIMITS: "off",
    LOG_LEVEL: "warn",
    TRUST_PROXY: "127.0.0.1",
  };
  const server = await startServer(["gateway/main.ts"], env, undefined);
  startNginx(new URL(server.url).port);
  const credentials = { email: "ann@example.com", password: "Correct-horse-1" };
  await post(server, "/auth/register", { ...credentials, name: "Ann", acceptTerms: true });
  const { accessToken } = (await (await post(server, "/auth/login", credentials)).json()) as { accessToken: string };

  const before = await measure(accessToken, BASELINE_MS);
  const flooder = spawn(process.execPath, [import.meta.filename, "flood"], { stdio: "inherit" });
  const ended = new Promise((done) => flooder.once("exit", done));
  closing(async () => void flooder.kill());
  await wait(2_000); // the flood is connected
  const during = await measure(accessToken, FLOOD_MS - 4_000);
  await ended;
  process.stdout.write(`before  ${describe(before)}\nduring  ${describe(during)}\n`);
  await closeAll();
  process.exitCode = quantile(during.latencies, 0.99) <= TARGET_P99_MS && during.failed === 0 ? 0 : 1;
}

/** Starts nginx with the published file on ports of its own. */
function startNginx(port: string): void {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-nginx-"));
  mkdirSync(join(folder, "logs"));
  const [cert, key, file] = ["c.crt", "c.key", "nginx.conf"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const selfSigned = ["req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "1", "-subj", "/CN=localhost"];
  execFileSync("openssl", [...selfSigned, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const published = readFileSync(resolve(import.meta.dirname, "../docs/proxy/nginx.conf"), "utf8");
  const text = published
    .replace("listen 443", `listen 127.0.0.1:${REST_PORT}`)
    .replace("listen 8443", `listen 127.0.0.1:${GRPC_PORT}`)
    .replaceAll("127.0.0.1:3000", `127.0.0.1:${port}`)
    .replace("/etc/nginx/gatehouse.crt", cert)
    .replace("/etc/nginx/gatehouse.key", key);
  writeFileSync(file, `daemon off; pid ${folder}/pid; error_log ${folder}/error.log;\n${text}`);
  const nginx = spawn("nginx", ["-p", folder, "-e", join(folder, "error.log"), "-c", file], { stdio: "inherit" });
  closing(async () => void nginx.kill());
}

type Measured = { latencies: number[]; failed: number };

/** Sends one request after the other, paced, over one kept connection. */
async function measure(accessToken: string, durationMs: number): Promise<Measured> {
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  const measured: Measured = { latencies: [], failed: 0 };
  for (const end = performance.now() + durationMs; performance.now() < end; await wait(PACE_MS)) {
    const started = performance.now();
    const status = await profile(agent, accessToken).catch(() => 0);
    measured.latencies.push(performance.now() - started);
    if (status !== 200) measured.failed += 1;
  }
  agent.destroy();
  return measured;
}

function profile(agent: Agent, accessToken: string): Promise<number> {
  return new Promise((done, failed) => {
    const headers = { authorization: `Bearer ${accessToken}`, "x-request-id": randomUUID() };
    request({ agent, port: REST_PORT, path: "/user/profile", headers, timeout: 10_000 }, (response) => {
      response.resume().on("end", () => done(response.statusCode ?? 0));
    })
      .on("error", failed)
      .on("timeout", function (this: { destroy(): void }) {
        this.destroy();
      })
      .end();
  });
}

/** The flood: keeps CONNECTIONS open and drips a byte on each; what the proxy closes is opened again. */
async function flood(): Promise<void> {
  const end = performance.now() + FLOOD_MS;
  let [opened, closed] = [0, 0];
  const open = (index: number) => {
    if (performance.now() > end) return;
    const localAddress = `127.0.1.${1 + Math.floor(index / PER_ADDRESS)}`;
    const target: ConnectionOptions & TcpNetConnectOpts = {
      host: "127.0.0.1",
      port: REST_PORT,
      localAddress,
      rejectUnauthorized: false,
    };
    const socket = connect(target);
    opened += 1;
    const head = "POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    socket.write(index % 2 ? head : `${head}Content-Length: 10000\r\n\r\n`);
    const timer = setInterval(() => socket.write("x"), DRIP_MS);
    socket.on("error", () => {});
    socket.on("close", () => {
      clearInterval(timer);
      closed += 1;
      setTimeout(open, 100, index);
    });
  };
  for (let index = 0; index < CONNECTIONS; index++) {
    open(index);
    if (index % 50 === 49) await wait(20);
  }
  await wait(end - performance.now());
  process.stdout.write(`flood: ${opened} connections opened, ${closed} closed by the proxy\n`);
  process.exit(0);
}

function describe({ latencies, failed }: Measured): string {
  const [p50, p99, most] = [0.5, 0.99, 1].map((q) => `${quantile(latencies, q).toFixed(1)} ms`);
  return `${latencies.length} requests, ${failed} failed, p50 ${p50}, p99 ${p99}, max ${most}`;
}

function quantile(values: number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}
