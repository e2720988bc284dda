import http, { type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import {
  createWebhookOutbound,
  describeOutboundError,
  OutboundError,
} from "../../../services/platform/outbound.ts";
import { createAddressCheck } from "../../../services/platform/outbound-address.ts";
import { forTest } from "../../support/suites.ts";

const soon = () => AbortSignal.timeout(2_000);

/** A server on all addresses of this machine. */
async function listen(answer: RequestListener) {
  const server = http.createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  await forTest({ close });
  return { server, port: (server.address() as AddressInfo).port };
}

/** Why a post is refused. */
const refusalOf = (posting: Promise<unknown>) =>
  posting.then(
    () => "it was posted",
    (error: unknown) => {
      expect(error).toBeInstanceOf(OutboundError);
      return describeOutboundError(error);
    },
  );

describe("Webhook client", () => {
  const metadata = ["169.254.169.254", "169.254.170.2", "fd00:ec2::254", "fd20:ce::254"];
  const disguised = ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "100.100.100.200"];
  const privates = [
    ...["127.0.0.1", "127.255.0.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255"],
    ...["192.168.0.1", "100.64.0.1", "192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1"],
    ...["198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1"],
    ...["255.255.255.255", "::", "::1", "::7f00:1", "::a00:1", "::ffff:10.0.0.1"],
    ...["::ffff:127.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1"],
    ...["2002:7f00:1::", "2001::1", "2001:db8::1", "fc00::1", "fd12:3456::1", "fe80::1"],
    ...["fe80::1%eth0", "fec0::1", "ff02::1", "100::1", "3fff::1", "4000::1", "5f00::1"],
  ];
  const publics = [
    ...["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "169.253.0.1", "192.167.0.1"],
    ...["2606:4700:4700::1111", "2a00:1450:4001::1", "64:ff9b::808:808", "::ffff:8.8.8.8"],
  ];
  test.each([
    ...[...metadata, ...disguised].map((address) => [address, "metadata"]),
    ...privates.map((address) => [address, "private"]),
    ...publics.map((address) => [address, "public"]),
  ])(
    "%s is %s, and a listed address may be reached unless it gives out credentials",
    (address, reach) => {
      expect(createAddressCheck([])(address)).toBe(reach);
      const listed = createAddressCheck(["0.0.0.0/0", "::/0"])(address);
      expect(listed).toBe(reach === "metadata" ? "metadata" : "listed");
    },
  );

  test("connects only to listed networks if the address is private", async () => {
    const { port } = await listen((_, response) => response.writeHead(204).end());
    const urls = [
      "127.0.0.1",
      "127.1",
      "0x7f000001",
      "2130706433",
      "017700000001",
      "[::ffff:7f00:1]",
    ];
    for (const host of urls) {
      const url = `http://${host}:${port}/`;
      const { post } = createWebhookOutbound({}, ["127.0.0.1"]);
      expect(await post(url, {}, "", soon()), url).toMatchObject({ status: 204 });
      for (const networks of [[], ["127.0.0.2", "10.0.0.0/8"]]) {
        const guarded = createWebhookOutbound({}, networks);
        expect(await refusalOf(guarded.post(url, {}, "", soon()))).toBe(
          "its address is not allowed",
        );
        expect(await refusalOf(guarded.post(url.replace("http", "https"), {}, "", soon()))).toBe(
          "its address is not allowed",
        );
      }
    }
  });

  test("connects to the addresses that this connection's look-up has found, and checked", async () => {
    let hits = 0;
    const { port } = await listen((_, response) => {
      hits++;
      response.writeHead(204).end();
    });
    const answers = [
      ["127.0.0.2"],
      ["127.0.0.1"],
      ["127.0.0.2"],
      ["169.254.169.254"],
      ["10.0.0.1"],
    ];
    const resolved: string[] = [];
    const resolveName = async (host: string) => {
      resolved.push(host);
      return answers[resolved.length - 1] ?? [];
    };
    const { post } = createWebhookOutbound({}, ["127.0.0.2"], resolveName);
    const url = `http://rebinding.example.com:${port}/`;
    const outcomes = [];
    for (const _ of answers) outcomes.push(await refusalOf(post(url, {}, "", soon())));
    const refused = "its address is not allowed";
    expect(outcomes).toEqual(["it was posted", refused, "it was posted", refused, refused]);
    expect(resolved).toHaveLength(answers.length);
    expect(hits).toBe(2);
  });

  test("skips the addresses of a name that are not allowed", async () => {
    const { port } = await listen(({ socket }, response) =>
      response.writeHead(socket.localAddress === "127.0.0.2" ? 204 : 500).end(),
    );
    const resolveName = async () => ["10.0.0.1", "127.0.0.1", "127.0.0.2", "::1"];
    const { post } = createWebhookOutbound({}, ["127.0.0.2"], resolveName);
    expect((await post(`http://many.example.com:${port}/`, {}, "", soon())).status).toBe(204);
  });

  test("uses http only towards listed networks", async () => {
    const resolveName = async () => ["8.8.8.8"];
    const { post, allows } = createWebhookOutbound({}, ["127.0.0.1"], resolveName);
    expect(await refusalOf(post("http://public.example.com/", {}, "", soon()))).toBe(
      "its address is not allowed",
    );
    expect(allows(new URL("http://public.example.com/"))).toBe(true); // the name may be listed
    expect(allows(new URL("http://8.8.8.8/"))).toBe(false);
    expect(createWebhookOutbound({}, []).allows(new URL("http://public.example.com/"))).toBe(false);
  });

  test("follows no redirect, and does not read the response", async () => {
    let written = 0;
    const { port } = await listen((request, response) => {
      if (request.url === "/other") return response.end("followed");
      response.writeHead(302, { location: "/other", "retry-after": "7" });
      const timer = setInterval(() => {
        written++;
        response.write("x".repeat(1_024));
      }, 1);
      response.on("close", () => clearInterval(timer));
    });
    const { post } = createWebhookOutbound({}, ["127.0.0.1"]);
    expect(await post(`http://127.0.0.1:${port}/`, {}, "", soon())).toEqual({
      status: 302,
      retryAfter: "7",
    });
    expect(written).toBeLessThan(1_000);
  });

  test.each<[string, RequestListener, string]>([
    ["is silent", () => {}, "no answer in time"],
    ["closes the connection", (_, response) => response.destroy(), "ECONNRESET"],
    ["does not send HTTP", ({ socket }) => socket.end("220 smtp\r\n"), "HPE_INVALID_CONSTANT"],
    [
      "sends endless headers",
      ({ socket }) => socket.write(`HTTP/1.1 200 OK\r\n${"x-a: b\r\n".repeat(20_000)}`),
      "HPE_HEADER_OVERFLOW",
    ],
  ])("fails if the endpoint %s", async (_what, answer, reason) => {
    const { port } = await listen(answer);
    const { post } = createWebhookOutbound({}, ["127.0.0.1"]);
    const url = `http://127.0.0.1:${port}/`;
    expect(await refusalOf(post(url, {}, "", AbortSignal.timeout(300)))).toBe(reason);
  });

  test("lets a proxy resolve names, and still refuses private addresses in URLs", async () => {
    const { server, port } = await listen((_, response) => response.writeHead(204).end());
    const asked: (string | undefined)[] = [];
    server.on("connect", (request, socket) => {
      asked.push(request.url);
      socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    });
    const proxy = {
      HTTPS_PROXY: `http://127.0.0.1:${port}`,
      HTTP_PROXY: `http://127.0.0.1:${port}`,
    };
    const { post } = createWebhookOutbound(
      { ...proxy, NO_PROXY: "*.near.example.com" },
      ["127.0.0.1"],
      async () => ["10.0.0.1"],
    );
    expect(await refusalOf(post("https://hooks.example.com/", {}, "", soon()))).not.toBe(
      "it was posted",
    );
    expect(asked).toEqual(["hooks.example.com:443"]);
    for (const url of [
      "https://10.0.0.1/",
      "https://169.254.169.254/",
      "https://a.near.example.com/",
    ])
      expect(await refusalOf(post(url, {}, "", soon()))).toBe("its address is not allowed");
    expect(await post(`http://127.0.0.1:${port}/`, {}, "", soon())).toMatchObject({ status: 204 });
    expect(asked).toHaveLength(1);
  });
});
