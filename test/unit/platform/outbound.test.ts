import http, { type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { createOutbound, OutboundError } from "../../../services/platform/outbound.ts";
import { forTest } from "../../support/suites.ts";

const { fetch, allows } = createOutbound({}, true);
const soon = () => AbortSignal.timeout(200);

/** A server on this machine. */
async function serverOf(answer: RequestListener): Promise<string> {
  const server = http.createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  await forTest({ close });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.each([
  ["https://example.com", true, true],
  ["http://localhost:3000", true, false],
  ["http://127.0.0.9", true, false],
  ["http://[::1]", true, false],
  ["http://[::ffff:127.0.0.1]", true, false],
  ["http://example.com", false, false],
  ["http://10.0.0.1", false, false],
  ["http://169.254.169.254", false, false],
  ["http://localhost.example.com", false, false],
  ["file:///etc/passwd", false, false],
  ["javascript:alert(1)", false, false],
])("outbound: %s is allowed: %s, and in production: %s", (url, inTrials, inProduction) => {
  expect(allows(new URL(url))).toBe(inTrials);
  expect(createOutbound({}, false).allows(new URL(url))).toBe(inProduction);
});

test("outbound: sends method, headers and body, and returns status, headers and body", async () => {
  const url = await serverOf((request, response) => {
    request.pipe(
      response.writeHead(418, { "x-method": request.method, "x-a": request.headers["x-a"] }),
    );
  });
  const request = { method: "POST", headers: { "x-a": "1" }, body: "hello" };
  const response = await fetch(url, request, soon());
  expect([response.status, await response.text()]).toEqual([418, "hello"]);
  expect([response.headers.get("x-method"), response.headers.get("x-a")]).toEqual(["POST", "1"]);
});

test("outbound: follows no redirect", async () => {
  const url = await serverOf((request, response) => {
    if (request.url !== "/") return void response.end("followed");
    response.writeHead(302, { location: "/other" }).end();
  });
  expect((await fetch(url, {}, soon())).status).toBe(302);
});

test("outbound: reads a response of 256 KiB", async () => {
  const url = await serverOf((_, response) => response.end(Buffer.alloc(256 * 1024)));
  expect((await (await fetch(url, {}, soon())).arrayBuffer()).byteLength).toBe(256 * 1024);
});

test.each<[string, RequestListener]>([
  ["is silent", () => {}],
  ["stops in the middle", (_, response) => response.writeHead(200).write("{")],
  ["sends more than 256 KiB", (_, response) => response.end(Buffer.alloc(256 * 1024 + 1))],
  ["closes the connection", (_, response) => response.destroy()],
  ["does not send HTTP", ({ socket }) => socket.end("220 smtp.example.com ESMTP\r\n")],
])("outbound: fails if the other side %s", async (_what, answer) => {
  await expect(fetch(await serverOf(answer), {}, soon())).rejects.toThrow(OutboundError);
});

test("outbound: fails if the signal is aborted or nobody listens", async () => {
  const url = await serverOf(() => {});
  await expect(fetch(url, {}, AbortSignal.abort())).rejects.toThrow(OutboundError);
  await expect(fetch("http://127.0.0.1:9", {}, soon())).rejects.toThrow(OutboundError);
  await expect(fetch("http://example.com", {}, soon())).rejects.toThrow(OutboundError);
});
