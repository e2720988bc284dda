/**
 * Which files of gateway/ and services/ one request runs through: `npm run bench -- flows`. The
 * whole product runs in this process on embedded parts. A file counts when one of its functions
 * runs in every one of several equal requests, so that background work does not.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AIService } from "../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { startProviderSimulator } from "../scripts/simulators/simulator.ts";

/** Logins: with the one that signs in and the one that warms up, as many as the limit allows. */
const LOGINS = 3;
/** Other requests: so many that no background work runs during each of them. */
const REPEATS = 8;
const [PORT, GRPC_PORT] = ["3987", "3988"];
const url = `http://127.0.0.1:${PORT}`;
const root = `file://${process.cwd()}/`;

const provider = await startProviderSimulator({ dialect: "openai", paceMs: 30 });
/** Its streams end before any background job is due, so that none runs during each of them. */
const quick = await startProviderSimulator({ dialect: "openai-compatible", paceMs: 5 });
Object.assign(process.env, {
  PORT,
  GRPC_PORT,
  DATABASE_URL: "memory:",
  DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-flows-")),
  SECRET_KEY: randomBytes(32).toString("base64"),
  RATE_LIMITS: "on",
  LOG_LEVEL: "fatal",
  OPENAI_API_KEY: "simulated-key",
  OPENAI_BASE_URL: `${provider.url}/v1`,
  MISTRAL_API_KEY: "simulated-key",
  MISTRAL_BASE_URL: `${quick.url}/v1`,
});
await import("../gateway/main.ts");

const post = (path: string, body: object, token?: string) =>
  fetch(url + path, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(token && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(body),
  });
const credentials = { email: "ann@example.com", password: "Correct-horse-1" };
await post("/auth/register", { ...credentials, name: "Ann", acceptTerms: true });
const { accessToken } = (await (await post("/auth/login", credentials)).json()) as {
  accessToken: string;
};
const chat = { provider: "provider-d", messages: [{ role: "user", content: "Say a few words." }] };
const grpc = createClient(
  AIService,
  createGrpcTransport({ baseUrl: `http://127.0.0.1:${GRPC_PORT}` }),
);

/** The files that a flow runs through. `mark` forgets those so far. */
const flows: Record<string, (mark: () => Promise<unknown>) => Promise<unknown>> = {
  "POST /auth/login": async () => (await post("/auth/login", credentials)).text(),
  "GET /user/profile": async () =>
    (
      await fetch(`${url}/user/profile`, { headers: { authorization: `Bearer ${accessToken}` } })
    ).text(),
  "PUT /user/profile": async () =>
    (
      await fetch(`${url}/user/profile`, {
        method: "PUT",
        headers: { authorization: `Bearer ${accessToken}`, "content-type": "application/json" },
        body: JSON.stringify({ name: "Bea" }),
      })
    ).text(),
  "POST /ai/stream": async () => (await post("/ai/stream", chat, accessToken)).text(),
  "POST /ai/stream, each chunk after the first": async (mark) => {
    const reader = (
      await post("/ai/stream", { ...chat, provider: "provider-a" }, accessToken)
    ).body?.getReader();
    await reader?.read();
    await mark();
    for (let i = 0; i < 3; i++) await reader?.read();
    marked = await ran();
    await reader?.cancel();
  },
  "gRPC StreamChat": async () => {
    for await (const _ of grpc.streamChat(chat, {
      headers: { authorization: `Bearer ${accessToken}` },
    }));
  },
};

const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
/** Files of ours in which a function has run since the last time. */
const ran = async () => {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  const own = result.filter(({ functions }) =>
    functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0),
  );
  return new Set(
    own
      .map((script) => script.url.replace(root, ""))
      .filter((file) => /^(gateway|services)\//.test(file)),
  );
};
let marked: Set<string> | undefined;
for (const [name, flow] of Object.entries(flows)) {
  await flow(ran);
  let files: Set<string> | undefined;
  for (let i = name === "POST /auth/login" ? REPEATS - LOGINS : 0; i < REPEATS; i++) {
    await ran();
    marked = undefined;
    await flow(ran);
    const now = marked ?? (await ran());
    files = new Set([...now].filter((file) => files?.has(file) ?? true));
  }
  const sorted = [...(files ?? [])].sort();
  process.stdout.write(
    `\n${name}: ${sorted.length} files\n${sorted.map((file) => `  ${file}\n`).join("")}`,
  );
}
process.exit(0);
