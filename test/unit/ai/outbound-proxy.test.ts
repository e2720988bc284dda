import { readFileSync } from "node:fs";
import http from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import tls from "node:tls";
import { urlToHttpOptions } from "node:url";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { startProviderSimulator } from "../../../scripts/simulators/simulator.ts";
import { createHttpClient } from "../../../services/ai/providers/http-client.ts";
import { requireConfig } from "../../../services/platform/config/config.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { startApp } from "../../support/app.ts";
import { listen } from "../../support/network/sockets.ts";
import { forTest } from "../../support/suites.ts";

const CERT = readFileSync("test/support/network/tls/ours.pem", "utf8"); // for localhost
const KEY = readFileSync("test/support/network/tls/ours.key");
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

test("POST /ai/chat, POST /ai/stream: HTTPS_PROXY tunnels TLS to providers other than those of NO_PROXY, and verifies their certificates", async () => {
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
  { what: "a proxy that never opens its tunnel", isProxy: true, answer: "" },
  {
    what: "a proxy that opens a tunnel to nowhere",
    isProxy: true,
    answer: "HTTP/1.1 200 OK\r\n\r\n",
  },
  { what: "a server that never shakes hands", isProxy: false, answer: "" },
])(
  "Provider client: a request to $what ends at the connect timeout, and at an abort",
  async ({ isProxy, answer }) => {
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

/** Environments, with PROXY for the address of the proxy, and how a provider is reached in them. */
type Row = { env: Record<string, string>; url: string; isProxied: boolean };
const HTTPS = "https://api.provider.example:1";
const HTTP = "http://api.provider.example:1";
const row = (env: Row["env"], url: string, isProxied: boolean): Row => ({ env, url, isProxied });
const exempt = (NO_PROXY: string, url: string, isProxied: boolean) =>
  row({ HTTPS_PROXY: "http://PROXY", NO_PROXY }, url, isProxied);

describe("Provider client: proxies of the environment are used as in curl", () => {
  const lookup = (_: string, { all }: { all?: boolean }, callback: (...found: never[]) => void) =>
    all
      ? callback(null as never, [{ address: "127.0.0.1", family: 4 }] as never)
      : callback(null as never, "127.0.0.1" as never, 4 as never);

  test.each([
    row({}, HTTPS, false),
    row({ HTTPS_PROXY: "http://PROXY" }, HTTPS, true),
    row({ https_proxy: "http://PROXY" }, HTTPS, true),
    row({ https_proxy: "http://PROXY", HTTPS_PROXY: "http://127.0.0.1:9" }, HTTPS, true),
    row({ https_proxy: " ", HTTPS_PROXY: "http://PROXY" }, HTTPS, true), // blank counts as not set
    row({ https_proxy: "PROXY" }, HTTPS, true),
    row({ https_proxy: "http://PROXY/" }, HTTPS, true),
    row({ all_proxy: "http://PROXY" }, HTTPS, true),
    row({ ALL_PROXY: "http://PROXY" }, HTTPS, true),
    row({ ALL_PROXY: "http://127.0.0.1:9", https_proxy: "http://PROXY" }, HTTPS, true),
    row({ http_proxy: "http://PROXY" }, HTTPS, false),
    row({ http_proxy: "http://PROXY" }, HTTP, true),
    row({ HTTPS_PROXY: "http://PROXY" }, HTTP, false),
    row({ HTTP_PROXY: "http://PROXY" }, HTTP, false), // a CGI server sets it from a header of a request
    row({ all_proxy: "http://PROXY" }, HTTP, true),
    row({ https_proxy: "http://PROXY", no_proxy: "api.provider.example" }, HTTPS, false),
    row({ http_proxy: "http://PROXY", NO_PROXY: "provider.example" }, HTTP, false),
    row(
      { https_proxy: "http://PROXY", no_proxy: "a.b", NO_PROXY: "provider.example" },
      HTTPS,
      true,
    ),
    exempt("*", HTTPS, false),
    exempt(" * ", HTTPS, false),
    exempt("api.provider.example", HTTPS, false),
    exempt("provider.example", HTTPS, false),
    exempt(".provider.example", HTTPS, false),
    exempt("*.provider.example", HTTPS, false),
    exempt("provider.example.", HTTPS, false),
    exempt("Provider.EXAMPLE", HTTPS, false),
    exempt("provider.example", "https://provider.example:1", false),
    exempt(".provider.example", "https://provider.example:1", false),
    exempt("provider.example", "https://my-provider.example:1", true),
    exempt("der.example", HTTPS, true),
    exempt("a.b,provider.example", HTTPS, false),
    exempt("a.b provider.example", HTTPS, false),
    exempt("a.b , provider.example", HTTPS, false),
    exempt("provider.example", "https://api.provider.example.:1", false),
    exempt("127.0.0.1", "https://127.0.0.1:1", false),
    exempt("127.0.0.0/8", "https://127.0.0.1:1", false),
    exempt("10.0.0.0/8", "https://127.0.0.1:1", true),
    exempt("127.0.0.0/99", "https://127.0.0.1:1", true),
    exempt("::1", "https://[::1]:1", false),
    exempt("[::1]", "https://[::1]:1", false),
    exempt("fd00::/8,::/96", "https://[::1]:1", false),
    exempt("fd00::/8", "https://[::1]:1", true),
  ])("$env: $url is proxied: $isProxied", async ({ env, url, isProxied }) => {
    const seen: string[] = [];
    const proxy = http.createServer((_, response) => {
      seen.push("plain");
      response.end("{}");
    });
    proxy.on("connect", ({ url: target }, client) => {
      seen.push(String(target));
      client.destroy();
    });
    const address = `127.0.0.1:${await listenForTest(proxy)}`;
    const set = Object.entries(env).map(([name, value]) => [name, value.replace("PROXY", address)]);
    const { proxies } = requireConfig(Object.fromEntries(set));
    const client = await forTest(createHttpClient(1_000, proxies));
    const target = { ...urlToHttpOptions(new URL(url)), lookup } as http.RequestOptions;
    await client.post(target, {}, {}, new AbortController().signal).catch(() => {});
    expect(seen.length > 0).toBe(isProxied);
  });

  test.each([
    { name: "https_proxy", value: "socks5://127.0.0.1:9" },
    { name: "HTTPS_PROXY", value: "not a proxy" },
    { name: "http_proxy", value: "http://" },
    { name: "all_proxy", value: "ftp://secret@127.0.0.1" },
  ])(
    "the start reports an invalid $name=$value with its name and without its value",
    ({ name, value }) => {
      const read = () => requireConfig({ [name]: value });
      expect(read).toThrow(new RegExp(`^${name} must be`));
      expect(read).not.toThrow(/secret|socks5/);
    },
  );
});
