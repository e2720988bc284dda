import { readFileSync } from "node:fs";
import http from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import tls from "node:tls";
import { urlToHttpOptions } from "node:url";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { startProviderSimulator } from "../../../scripts/simulators/simulator.ts";
import { createHttpClient } from "../../../services/ai/providers/http-client.ts";
import { conversationOf } from "../../support/ai-calls.ts";
import { startApp } from "../../support/app.ts";
import { forTest } from "../../support/closing.ts";
import { listen } from "../../support/sockets.ts";

const CERT = readFileSync("test/support/tls/ours.pem", "utf8"); // for localhost
const KEY = readFileSync("test/support/tls/ours.key");
const authorities = tls.getCACertificates("default");
beforeAll(() => tls.setDefaultCACertificates([CERT]));
afterAll(() => tls.setDefaultCACertificates(authorities)); // other suites run in this thread

const listenForTest = async (server: Server) => listen(await forTest(server));

/** Starts a proxy that records the targets and credentials of CONNECT requests. */
async function startConnectProxy(onConnect: (client: Socket) => unknown) {
  const requests: string[] = [];
  const proxy = http.createServer().on("connect", ({ url, headers }, client) => {
    requests.push(`${url} ${headers["proxy-authorization"]}`);
    onConnect(client.on("error", () => {}) as Socket);
  });
  return { requests, HTTPS_PROXY: `http://me:secret@127.0.0.1:${await listenForTest(proxy)}` };
}

test("POST /ai/chat, POST /ai/stream: HTTPS_PROXY tunnels TLS to providers but those of NO_PROXY, and verifies their certificates", async () => {
  const simulator = await forTest(startProviderSimulator({ dialect: "openai" }));
  const provider = tls.createServer({ cert: CERT, key: KEY }, (near) => {
    const far = connect(Number(new URL(simulator.url).port), "127.0.0.1");
    for (const socket of [near, far]) socket.on("error", () => {});
    near.pipe(far).pipe(near);
  });
  const port = await listenForTest(provider);
  const { requests, HTTPS_PROXY } = await startConnectProxy((client) => {
    const tunnel = connect(port, "127.0.0.1", () => client.write("HTTP/1.1 200 OK\r\n\r\n"));
    tunnel.on("error", () => {});
    tunnel.pipe(client).pipe(tunnel);
  });
  const env = {
    HTTPS_PROXY,
    NO_PROXY: "direct.invalid",
    OPENAI_BASE_URL: "https://localhost:1/v1", // only the tunnel reaches this
    MISTRAL_BASE_URL: "https://provider.invalid:1/v1", // the certificate does not name this
    ANTHROPIC_BASE_URL: "https://direct.invalid:1",
  };
  const app = await forTest(startApp({ mode: "embedded", env }));
  const { post } = await app.signIn();
  const ask = (path: string, provider: string) =>
    post(path, conversationOf("case: plain", provider));
  expect((await ask("/ai/chat", "provider-a")).body).toMatchObject({ content: REPLY });
  expect((await ask("/ai/stream", "provider-a")).text).toContain("data: [DONE]");
  const unreachable = { status: 500, body: { message: expect.stringContaining("unreachable") } };
  const refused = [ask("/ai/chat", "provider-b"), ask("/ai/chat", "provider-d")];
  expect(await Promise.all(refused)).toMatchObject([unreachable, unreachable]);
  const credentials = `Basic ${btoa("me:secret")}`;
  const tunnels = ["localhost:1", "provider.invalid:1"].map((target) => `${target} ${credentials}`);
  expect(new Set(requests)).toEqual(new Set(tunnels));
});

test.each([
  ["a proxy that never opens its tunnel", true, ""],
  ["a proxy that opens a tunnel to nowhere", true, "HTTP/1.1 200 OK\r\n\r\n"],
  ["a server that never shakes hands", false, ""],
])(
  "Provider client: a request to %s ends at the limit of connecting, and at an abort",
  async (_, isProxy, answer) => {
    const sockets: Socket[] = [];
    const hold = (socket: Socket) => sockets.push(socket) && socket.write(answer);
    onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
    const proxyEnv = isProxy ? { HTTPS_PROXY: (await startConnectProxy(hold)).HTTPS_PROXY } : {};
    const address = isProxy
      ? "provider.invalid:1"
      : `127.0.0.1:${await listenForTest(createServer(hold))}`;
    const post = (connectMs: number, signal: AbortSignal) =>
      createHttpClient(connectMs, proxyEnv).post(
        urlToHttpOptions(new URL(`https://${address}`)),
        {},
        {},
        signal,
      );
    const late = { message: "unreachable", facts: { retryable: true } };
    await expect(post(100, new AbortController().signal)).rejects.toMatchObject(late);
    await expect(post(60_000, AbortSignal.timeout(100))).rejects.toMatchObject({
      name: "TimeoutError",
    });
    expect(sockets).toHaveLength(2);
  },
);
