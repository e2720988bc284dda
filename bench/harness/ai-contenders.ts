import { execFileSync } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Contender, Kind } from "./ai-load.ts";
import { freePort } from "./ports.ts";
import { type Server, startServer } from "./server.ts";
import { REDIS_URL } from "./settings.ts";
import { setStage, signUp } from "./stage.ts";

const portkey = join(import.meta.dirname, "../peers/portkey");
/** Enough for no user to reach the limit of 100 calls a minute. */
const USERS = 1_000;
/** Distinguishes the users and addresses of this run from those that Redis has counted before. */
const run = randomInt(256);
/** Users who sign up concurrently. */
const AT_ONCE = 50;
const MESSAGES = [
  { role: "system", content: "You are a helpful assistant." },
  { role: "user", content: "Say a few words, please, and then a few more." },
];
const messagesFor = (kind: Kind) =>
  kind === "open" ? [...MESSAGES, { role: "user", content: "stay open" }] : MESSAGES;

/** A contender with the API of OpenAI. */
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

/** The provider without a gateway. */
export const direct = (upstream: Server): Contender => asOpenai("no gateway", upstream);

/** A bare `node:http` pipe. */
export async function startPipe(upstream: Server): Promise<Contender> {
  return asOpenai(
    "node:http pipe",
    await startServer(["bench/peers/pipe.ts"], { UPSTREAM: upstream.url }),
  );
}

/** Portkey's gateway, installed from its lockfile in bench/peers/portkey at first use. */
export async function startPortkey(upstream: Server): Promise<Contender> {
  if (!existsSync(join(portkey, "node_modules"))) {
    execFileSync(
      "npm",
      ["ci", "--prefix", portkey, "--ignore-scripts", "--no-audit", "--no-fund"],
      {
        stdio: "inherit",
      },
    );
  }
  const main = join(portkey, "node_modules/@portkey-ai/gateway/build/start-server.js");
  const env = { NODE_ENV: "production", TRUSTED_CUSTOM_HOSTS: "localhost,127.0.0.1" };
  const server = await startServer([main, `--port=${await freePort()}`, "--headless"], env);
  const headers = { "x-portkey-provider": "openai", "x-portkey-custom-host": `${upstream.url}/v1` };
  return asOpenai("Portkey 1.15.2", server, headers);
}

/**
 * Gatehouse with all features (token, session, limits, usage, metrics): in one process, and with
 * gateway and services apart. Beside it bare node:http with the same queries for the same users.
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
    const some = Array.from({ length: AT_ONCE }, (_, i) => {
      const user = tokens.length + i;
      const address = `10.${run}.${user >> 8}.${user & 255}`;
      return signUp(stage.server, `user-${user}-${run}@example.com`, address);
    });
    tokens.push(...(await Promise.all(some)).map(({ accessToken }) => accessToken));
  }
  const INTERNAL_URL = `tcp://127.0.0.1:${others[2]}`;
  const services = await startServer(["services/main.ts"], {
    ...env,
    DATABASE_URL: stage.databaseUrl,
    GRPC_PORT: String(grpcPort),
    METRICS_PORT: String(others[0]),
    INTERNAL_URL,
    LOG_LEVEL: "info", // prints its address
  });
  const gateway = await startServer(["gateway/main.ts"], {
    ...env,
    SERVICES_URL: INTERNAL_URL,
    METRICS_PORT: String(others[1]),
  });
  const bare = await startServer(["bench/peers/bare-http.ts"], {
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
