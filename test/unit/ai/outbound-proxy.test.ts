import http from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createHttpClient } from "../../../services/ai/providers/http-client.ts";

test("HTTPS_PROXY: providers are reached by CONNECT through the proxy, except those of NO_PROXY", async () => {
  const connected: string[] = [];
  const proxy = http.createServer().on("connect", ({ url = "" }, socket) => {
    connected.push(url);
    socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void proxy.close());
  const HTTPS_PROXY = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const client = createHttpClient(5_000, { HTTPS_PROXY, NO_PROXY: "localhost" });
  onTestFinished(client.close);
  const post = (hostname: string) =>
    client.post({ protocol: "https:", hostname, port: 1, path: "/" }, {}, {}, new AbortController().signal);
  await expect(post("provider.invalid")).rejects.toThrow();
  await expect(post("localhost")).rejects.toThrow();
  expect(connected).toEqual(["provider.invalid:1"]);
});
