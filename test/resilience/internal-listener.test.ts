import net from "node:net";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Code, createClient } from "@connectrpc/connect";
import { expect, onTestFinished, test } from "vitest";
import { createInternalTransport } from "../../gateway/transport/internal.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { signInAt } from "../support/accounts.ts";
import { freshStorage } from "../support/database/databases.ts";
import { type Routes, SECRET } from "../support/http/gateway.ts";
import { chat, errorOf, openTransport } from "../support/http/stub-services.ts";
import { listen } from "../support/network/sockets.ts";
import { startProcess, startServices } from "../support/processes/processes.ts";
import { forTest } from "../support/suites.ts";
import { times } from "../support/tally.ts";

test("INTERNAL_URL: a gateway uses the Unix socket of the services, even after they were killed; no other caller can", async () => {
  const env = { ...(await freshStorage()), INTERNAL_SECRET: SECRET, RATE_LIMITS: "off" };
  const url = `unix:${join(env.DATA_DIR, "services.sock")}`;
  const start = () => startServices({ ...env, INTERNAL_URL: url });
  let services = await start();
  const gateway = await startProcess({ ...env, SERVICES_URL: url });
  onTestFinished(async () => {
    expect(await gateway.end("SIGTERM")).toBe(0);
    expect(await services.end("SIGTERM")).toBe(0);
  });
  const { browser, accessToken } = await signInAt(gateway.url);
  const profile = async () => (await browser.get("/user/profile", accessToken)).status;
  expect(await profile()).toBe(200);
  await services.end("SIGKILL");
  expect(await profile()).toBe(503);
  services = await start(); // the socket file of the killed process is still there
  expect(await profile()).toBe(200);
  const keysBy = async (secret: string) =>
    createClient(AuthService, await forTest(createInternalTransport(url, secret))).listKeys({});
  expect((await keysBy(SECRET)).keys).toHaveLength(1);
  const refused = await errorOf(keysBy("another-secret-of-services"));
  expect(refused).toMatchObject({ code: Code.Unavailable }); // UNAUTHENTICATED would end the sessions of users
  const second = startServices({ ...env, DATABASE_URL: "memory:", INTERNAL_URL: url });
  expect((await errorOf(second)).message).toMatch(/INTERNAL_URL is already in use: .*EADDRINUSE/);
});

/** A transport to services that `routes` implements. */
const connectTo = (routes: Routes, silenceMs: number) =>
  openTransport("over the internal listener", routes, [], { silenceMs });

test("SERVICES_URL: a reader that pauses beyond the idle timeout gets the complete stream", async () => {
  const pieces = times(200, (i) => `${i} ${"x".repeat(20_000)}`);
  const routes: Routes = (router) =>
    router.service(AIService, {
      async *streamChat() {
        for (const chunk of pieces) yield { chunk };
      },
    });
  const transport = await connectTo(routes, 3_000);
  const read: string[] = [];
  for await (const { chunk } of (await chat(transport)).message) {
    if (read.push(chunk) === 1) await wait(4_500);
  }
  expect(read).toEqual(pieces);
});

test("SERVICES_URL: calls whose services work for longer than the idle timeout succeed, and their headers arrive immediately", async () => {
  const workMs = 7_000; // one sign of life
  let hasWorked = false;
  const routes: Routes = (router) =>
    router.service(AuthService, { listKeys: () => wait(workMs, { keys: [] }) }).service(AIService, {
      async *streamChat(_request, { responseHeader }) {
        responseHeader.set("x-ai-ignored", "temperature");
        await wait(workMs);
        hasWorked = true;
        yield { chunk: "a" };
        await wait(workMs);
        yield { chunk: "b" };
      },
    });
  const transport = await connectTo(routes, 6_000);
  const read = async () => {
    const { header, message } = await chat(transport);
    expect(header.get("x-ai-ignored")).toBe("temperature");
    expect(hasWorked).toBe(false);
    const chunks: string[] = [];
    for await (const { chunk } of message) chunks.push(chunk);
    return chunks;
  };
  const [{ keys }, chunks] = await Promise.all([
    createClient(AuthService, transport).listKeys({}),
    read(),
  ]);
  expect(keys).toEqual([]);
  expect(chunks).toEqual(["a", "b"]);
});

/** A transport to services that do nothing but what `onConnection` does. */
async function connectToMute(onConnection: (services: net.Socket) => void = () => {}) {
  const mute = await forTest(
    net.createServer((socket) => onConnection(socket.on("error", () => {}))),
  );
  const url = `tcp://127.0.0.1:${await listen(mute)}`;
  return forTest(createInternalTransport(url, SECRET, { silenceMs: 200 }));
}

test("SERVICES_URL: a call to silent services fails with UNAVAILABLE", async () => {
  const call = createClient(AuthService, await connectToMute()).listKeys({});
  expect(await errorOf(call)).toMatchObject({ code: Code.Unavailable });
});

test("SERVICES_URL: a stream whose services fall silent while its reader pauses fails with UNAVAILABLE", async () => {
  const empty = "\0".repeat(5); // a message without a field
  let services: net.Socket | undefined;
  const transport = await connectToMute((socket) => {
    services = socket;
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n${empty}`);
  });
  const read = async () => {
    for await (const _ of (await chat(transport)).message) {
      services?.write(empty);
      services = undefined;
      await wait(600);
    }
  };
  expect(await errorOf(read())).toMatchObject({ code: Code.Unavailable });
});
