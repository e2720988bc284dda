import { execFileSync } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../ports.ts";
import { type Server, startServer } from "../server.ts";
import { setStage } from "../stage.ts";
import type { Contender, Kind } from "./load.ts";

const peers = join(import.meta.dirname, "../peers");
const REDIS_URL = process.env.TEST_REDIS_URL ?? "redis://127.0.0.1:6379";
/** Enough that nobody meets the limit of 100 calls in a minute. */
const USERS = 1_000;
/** Tells this run's users and addresses from those that Redis has counted before. */
const run = randomInt(256);
/** Users who sign up at once. */
const AT_ONCE = 50;
const MESSAGES = [
  { role: "system", content: "You are a helpful assistant." },
  { role: "user", content: "Say a few words, please, and then a few more." },
];
const messagesFor = (kind: Kind) =>
  kind === "open" ? [...MESSAGES, { role: "user", content: "stay open" }] : MESSAGES;

/** A request in OpenAI's own words, for whoever takes them. */
function asOpenai(name: string, server: Server, headers: Record<string, string> = {}): Contender {
  const bodyOf = (kind: Kind) => {
    const streaming =
      kind === "chat" ? {} : { stream: true, stream_options: { include_usage: true } };
    return JSON.stringify({ model: "gpt-5", messages: messagesFor(kind), ...streaming });
  };
  return {
    name,
    url: server.url,
    servers: [server],
    ask: (kind) => ({
      path: "/v1/chat/completions",
      headers: { authorization: "Bearer bench-key", ...headers },
      body: bodyOf(kind),
    }),
  };
}

/** The provider itself: what there is without any gateway. */
export const direct = (upstream: Server): Contender => asOpenai("no gateway", upstream);

/** A bare `node:http` pipe. */
export async function startPipe(upstream: Server): Promise<Contender> {
  return asOpenai(
    "node:http pipe",
    await startServer(["bench/ai/pipe.ts"], { UPSTREAM: upstream.url }),
  );
}

/** Portkey's gateway, installed from the lockfile beside this benchmark when it isn't there yet. */
export async function startPortkey(upstream: Server): Promise<Contender> {
  if (!existsSync(join(peers, "node_modules"))) {
    execFileSync("npm", ["ci", "--prefix", peers, "--ignore-scripts", "--no-audit", "--no-fund"], {
      stdio: "inherit",
    });
  }
  const main = join(peers, "node_modules/@portkey-ai/gateway/build/start-server.js");
  const env = { NODE_ENV: "production", TRUSTED_CUSTOM_HOSTS: "localhost,127.0.0.1" };
  const server = await startServer([main, `--port=${await freePort()}`, "--headless"], env);
  const headers = { "x-portkey-provider": "openai", "x-portkey-custom-host": `${upstream.url}/v1` };
  return asOpenai("Portkey 1.15.2", server, headers);
}

/**
 * Gatehouse with everything on (token, session, limits, usage, metrics): in one process, and with
 * gateway and services apart. Beside it the least that can make the same trips for the same people.
 */
export async function startGatehouse(upstream: Server) {
  const [metricsPort, grpcPort, ...others] = await Promise.all(Array.from({ length: 5 }, freePort));
  const env = {
    RATE_LIMITS: "on",
    REDIS_URL,
    SECRET_KEY: randomBytes(32).toString("base64"),
    INTERNAL_SECRET: randomBytes(32).toString("base64url"),
    TRUST_PROXY: "127.0.0.1",
    ACCESS_TOKEN_TTL: "2h",
    LOG_LEVEL: "warn",
    OPENAI_API_KEY: "bench-key",
    OPENAI_BASE_URL: `${upstream.url}/v1`,
  };
  const stage = await setStage({ ...env, METRICS_PORT: String(metricsPort) });
  const tokens: string[] = [];
  while (tokens.length < USERS) {
    const some = Array.from({ length: AT_ONCE }, (_, i) => signIn(stage.server, tokens.length + i));
    tokens.push(...(await Promise.all(some)));
  }
  const INTERNAL_URL = `tcp://127.0.0.1:${others[2]}`;
  const services = await startServer(["services/main.ts"], {
    ...env,
    DATABASE_URL: stage.databaseUrl,
    GRPC_PORT: String(grpcPort),
    METRICS_PORT: String(others[0]),
    INTERNAL_URL,
    LOG_LEVEL: "info", // it says where it listens
  });
  const gateway = await startServer(["gateway/main.ts"], {
    ...env,
    SERVICES_URL: INTERNAL_URL,
    METRICS_PORT: String(others[1]),
  });
  const bare = await startServer(["bench/ai/bare.ts"], {
    UPSTREAM: upstream.url,
    DATABASE_URL: stage.databaseUrl,
    REDIS_URL,
  });
  return {
    bare: asGatehouse("bare node:http", [bare], tokens),
    inOne: asGatehouse("Gatehouse", [stage.server], tokens),
    apart: asGatehouse("Gatehouse, apart", [gateway, services], tokens),
  };
}

function asGatehouse(name: string, servers: [Server, ...Server[]], tokens: string[]): Contender {
  const bodies = Object.fromEntries(
    (["chat", "stream", "open"] as const).map((kind) => [
      kind,
      JSON.stringify({ provider: "provider-a", messages: messagesFor(kind) }),
    ]),
  ) as Record<Kind, string>;
  return {
    name,
    url: servers[0].url,
    servers,
    ask: (kind, turn) => ({
      path: kind === "chat" ? "/ai/chat" : "/ai/stream",
      headers: { authorization: `Bearer ${tokens[turn % tokens.length]}` },
      body: bodies[kind],
    }),
  };
}

/**
 * Somebody new, from an address of their own.
 * @returns the access token
 */
async function signIn({ url }: Server, user: number): Promise<string> {
  const post = async (path: string, body: object) => {
    const headers = {
      "content-type": "application/json",
      "x-forwarded-for": `10.${run}.${user >> 8}.${user & 255}`,
    };
    const response = await fetch(url + path, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path} answered ${response.status}`);
    return (await response.json()) as { accessToken: string };
  };
  const credentials = { email: `user-${user}-${run}@example.com`, password: "Correct-horse-1" };
  await post("/auth/register", { ...credentials, name: "Ann", acceptTerms: true });
  return (await post("/auth/login", credentials)).accessToken;
}
