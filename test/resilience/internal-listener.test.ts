import { mkdtempSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Code, createClient } from "@connectrpc/connect";
import { expect, onTestFinished, test } from "vitest";
import { createInternalTransport } from "../../gateway/transport/internal.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { listenInternal } from "../../services/internal-server.ts";
import { anyDatabase } from "../support/databases.ts";
import { startProcess, startServices } from "../support/deployment.ts";
import type { Routes } from "../support/gateway.ts";
import { createHttpClient } from "../support/http-client.ts";
import { chat, errorOf } from "../support/stub-transports.ts";
import { times, until } from "../support/until.ts";

const SECRET = "shared-by-gateway-and-services";
const ANN = { email: "ann@example.com", password: "Correct-horse-1" };

/** Services at a Unix socket, and how to start them again. */
async function startAtSocket() {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-internal-"));
  const url = `unix:${join(folder, "services.sock")}`;
  const env = { ...(await anyDatabase()), DATA_DIR: folder, INTERNAL_SECRET: SECRET, RATE_LIMITS: "off" };
  const start = () => startServices({ ...env, INTERNAL_URL: url });
  return { url, env, start };
}

test("INTERNAL_URL: a gateway uses the Unix socket of the services, also after these were killed", async () => {
  const { url, env, start } = await startAtSocket();
  let services = await start();
  const gateway = await startProcess({ ...env, SERVICES_URL: url });
  onTestFinished(async () => {
    expect(await gateway.end("SIGTERM")).toBe(0);
    expect(await services.end("SIGTERM")).toBe(0);
  });
  const client = createHttpClient(gateway.url);
  await client.post("/auth/register", { ...ANN, name: "Ann", acceptTerms: true });
  const { body } = await client.post("/auth/login", ANN);
  const profile = async () => (await client.get("/user/profile", body.accessToken)).status;
  expect(await profile()).toBe(200);
  await services.end("SIGKILL");
  expect(await profile()).toBe(503);
  services = await start(); // the socket file of the killed process is still there
  expect(await profile()).toBe(200);
});

test("INTERNAL_URL: refuses callers without the secret, and a second process at the same socket", async () => {
  const { url, env, start } = await startAtSocket();
  const services = await start();
  onTestFinished(async () => void (await services.end("SIGTERM")));
  const keysBy = async (secret: string) => {
    const transport = createInternalTransport(url, secret);
    onTestFinished(() => transport.close());
    return createClient(AuthService, transport).listKeys({});
  };
  expect((await keysBy(SECRET)).keys).toHaveLength(1);
  expect(await errorOf(keysBy("a-secret-of-somebody-else"))).toMatchObject({
    code: Code.Unavailable, // not of the access token: that would sign users out
  });
  const second = startServices({ ...env, DATABASE_URL: "memory:", INTERNAL_URL: url });
  expect((await errorOf(second)).message).toMatch(/INTERNAL_URL is taken: .*EADDRINUSE/);
});

test("SERVICES_URL: a reader that is slow for longer than silence may last gets the whole stream", async () => {
  const pieces = times(200, (i) => `${i} ${"x".repeat(20_000)}`);
  const routes: Routes = (router) =>
    router.service(AIService, {
      async *streamChat() {
        for (const chunk of pieces) yield { chunk };
      },
    });
  const app = { routes, interceptors: [] };
  const server = await listenInternal(app, { url: "tcp://127.0.0.1:0", secret: SECRET, tls: null, log: { warn() {} } });
  const transport = createInternalTransport(`tcp://127.0.0.1:${server.port}`, SECRET, {}, 50);
  onTestFinished(async () => {
    transport.close();
    await server.close(0);
  });
  const read: string[] = [];
  for await (const { chunk } of (await chat(transport)).message) {
    if (read.push(chunk) === 1) await wait(300);
  }
  expect(read).toEqual(pieces);
});

test("SERVICES_URL: services that fall silent are given up, and the call fails as one that may be repeated", async () => {
  const silent = net.createServer().listen(0, "127.0.0.1");
  await until("the port", () => silent.listening);
  const { port } = silent.address() as net.AddressInfo;
  const transport = createInternalTransport(`tcp://127.0.0.1:${port}`, SECRET, {}, 50);
  onTestFinished(() => {
    transport.close();
    silent.close();
  });
  expect(await errorOf(createClient(AuthService, transport).listKeys({}))).toMatchObject({ code: Code.Unavailable });
});
