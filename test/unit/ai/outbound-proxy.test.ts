import { readFileSync } from "node:fs";
import http from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import tls from "node:tls";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { startProviderSimulator } from "../../../scripts/simulators/simulator.ts";
import { createHttpClient } from "../../../services/ai/providers/http-client.ts";
import { startApp } from "../../support/app.ts";
import { listen } from "../../support/sockets.ts";

const CERT = readFileSync("test/support/tls/ours.pem", "utf8"); // for localhost
const KEY = readFileSync("test/support/tls/ours.key");
const authorities = tls.getCACertificates("default");
beforeAll(() => tls.setDefaultCACertificates([CERT]));
afterAll(() => tls.setDefaultCACertificates(authorities)); // other suites run in this thread

function listenForTest(server: Server): Promise<number> {
  onTestFinished(() => void server.close());
  return listen(server);
}

/** Starts a proxy that records the targets and credentials of CONNECT requests. */
async function startConnectProxy(onConnect: (client: Socket) => unknown) {
  const requests: string[] = [];
  const proxy = http.createServer().on("connect", ({ url, headers }, client) => {
    requests.push(`${url} ${headers["proxy-authorization"]}`);
    onConnect(client.on("error", () => {}) as Socket);
  });
  return { requests, HTTPS_PROXY: `http://me:secret@127.0.0.1:${await listenForTest(proxy)}` };
}

test("HTTPS_PROXY: providers are reached by CONNECT through the proxy, except those of NO_PROXY", async () => {
  const { requests, HTTPS_PROXY } = await startConnectProxy((client) => client.end("HTTP/1.1 502 Bad Gateway\r\n\r\n"));
  const client = createHttpClient(5_000, { HTTPS_PROXY, NO_PROXY: "localhost" });
  onTestFinished(client.close);
  const post = (hostname: string) =>
    client.post({ protocol: "https:", hostname, port: 1, path: "/" }, {}, {}, new AbortController().signal);
  await expect(post("provider.invalid")).rejects.toThrow();
  await expect(post("localhost")).rejects.toThrow();
  expect(requests).toEqual([`provider.invalid:1 Basic ${btoa("me:secret")}`]);
});

test("POST /ai/chat, POST /ai/stream: HTTPS_PROXY tunnels TLS to the provider, whose certificate is verified", async () => {
  const simulator = await startProviderSimulator({ dialect: "openai" });
  onTestFinished(() => simulator.close());
  const provider = tls.createServer({ cert: CERT, key: KEY }, (near) => {
    const far = connect(Number(new URL(simulator.url).port), "127.0.0.1");
    for (const socket of [near, far]) socket.on("error", () => {});
    near.pipe(far).pipe(near);
  });
  const port = await listenForTest(provider);
  const { requests, HTTPS_PROXY } = await startConnectProxy((client) => {
    const tunnel = connect(port, "127.0.0.1", () => client.write("HTTP/1.1 200 OK\r\n\r\n"));
    tunnel
      .on("error", () => {})
      .pipe(client)
      .pipe(tunnel);
  });
  const [ours, others] = ["https://localhost:1/v1", "https://provider.invalid:1/v1"]; // only the tunnel reaches them
  const app = await startApp({
    mode: "embedded",
    env: { HTTPS_PROXY, OPENAI_BASE_URL: ours, MISTRAL_BASE_URL: others },
  });
  onTestFinished(() => app.close());
  const { browser, accessToken } = await app.signIn();
  const ask = (path: string, provider: string) =>
    browser.post(path, { provider, messages: [{ role: "user", content: "case: plain" }] }, accessToken);
  expect((await ask("/ai/chat", "provider-a")).body).toMatchObject({ content: REPLY });
  expect((await ask("/ai/stream", "provider-a")).text).toContain("data: [DONE]");
  expect(await ask("/ai/chat", "provider-d")).toMatchObject({
    status: 500,
    body: { message: expect.stringContaining("unreachable") },
  });
  expect(new Set(requests.map((request) => request.split(" ")[0]))).toEqual(
    new Set(["localhost:1", "provider.invalid:1"]),
  );
});

test.each([
  ["never opens its tunnel", ""],
  ["opens a tunnel to nowhere", "HTTP/1.1 200 OK\r\n\r\n"],
])("HTTPS_PROXY: a request to a proxy that %s ends at its limit, and at an abort", async (_, answer) => {
  const sockets: Socket[] = [];
  const { HTTPS_PROXY } = await startConnectProxy((client) => sockets.push(client) && client.write(answer));
  onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
  const target = { protocol: "https:", hostname: "provider.invalid", port: 1, path: "/" };
  const post = (connectMs: number, signal: AbortSignal) =>
    createHttpClient(connectMs, { HTTPS_PROXY }).post(target, {}, {}, signal);
  await expect(post(100, new AbortController().signal)).rejects.toMatchObject({
    message: "unreachable",
    facts: { retryable: true },
  });
  await expect(post(60_000, AbortSignal.timeout(100))).rejects.toMatchObject({ name: "TimeoutError" });
});

test("Provider client: a TLS handshake without an answer ends at the limit of connecting by a retryable error", async () => {
  const sockets: Socket[] = [];
  const port = await listenForTest(createServer((socket) => sockets.push(socket)));
  onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
  const target = { protocol: "https:", hostname: "127.0.0.1", port, path: "/" };
  const posted = createHttpClient(300).post(target, {}, {}, new AbortController().signal);
  await expect(posted).rejects.toMatchObject({ message: "unreachable", facts: { retryable: true } });
  expect(sockets).toHaveLength(1);
});
