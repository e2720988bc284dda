// Which attempts a provider may have read, and may charge for.

import { createServer } from "node:net";
import { expect, test } from "vitest";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import { ProviderError } from "../../../services/ai/providers/errors.ts";
import type { CallProgress, ProviderBounds } from "../../../services/ai/providers/provider.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import { type RawExchange, rawResponse, startRawProvider } from "../../support/ai/raw-provider.ts";
import { listen } from "../../support/network/sockets.ts";
import { forTest } from "../../support/suites.ts";
import { until } from "../../support/until.ts";
import { promptFor } from "./support.ts";

const GOOD = JSON.stringify({
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
});

/** A call of a provider at an address, and what has been heard of it. */
async function startCall(url: string, limits: Partial<ProviderBounds & { mostRereads: number }>) {
  const { mostRereads = Number.POSITIVE_INFINITY, ...bounds } = limits;
  const catalogue = readCatalogue();
  const variables = { MISTRAL_API_KEY: "key", MISTRAL_BASE_URL: `${url}/v1` };
  const providers = await forTest(openProviders(catalogue, variables, { backoffMs: 1, ...bounds }));
  const entry = catalogue.providers.find(({ id }) => id === "provider-d");
  const provider = entry && providers.byId.get(entry.id);
  if (!provider) throw new Error("The provider isn't open.");
  const leaving = new AbortController();
  return () => {
    const heard = { isUnread: () => true, retries: [] as boolean[] };
    const onProgress = (progress: CallProgress) => {
      if (progress.kind === "sending") heard.isUnread = progress.isUnread;
      if (progress.kind === "retrying") heard.retries.push(progress.mayBeRead);
    };
    const read = async () => {
      const prompt = { ...promptFor(entry, "Hello."), isStream: false, mostRereads };
      for await (const _ of provider(prompt, leaving.signal, { onProgress }));
    };
    const outcome = read().then(
      () => "completed",
      (thrown) => (thrown instanceof ProviderError ? thrown.kind : "left"),
    );
    return { heard, outcome, leave: () => leaving.abort(new Error("left")) };
  };
}

const startRaw = (answer: (exchange: RawExchange) => unknown) => forTest(startRawProvider(answer));
const reset = ({ socket }: RawExchange) => socket.resetAndDestroy();

test("An attempt that was written may have been read, even if its connection is reset", async () => {
  const { url, requests } = await startRaw(reset);
  const { outcome, heard } = (await startCall(url, { retries: 2 }))();
  expect(await outcome).toBe("unreachable");
  expect(heard.retries).toEqual([true, true]);
  expect([heard.isUnread(), requests.length]).toEqual([false, 3]);
});

test("An attempt that was reset after its head may have been read", async () => {
  const { url } = await startRaw(({ socket }) =>
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", () => socket.resetAndDestroy()),
  );
  const { outcome, heard } = (await startCall(url, { retries: 1 }))();
  expect(await outcome).toBe("unreachable");
  expect([...heard.retries, !heard.isUnread()]).toEqual([true, true]);
});

test("Attempts that may have been read are repeated no more often than allowed", async () => {
  const { url, requests } = await startRaw(reset);
  const { outcome } = (await startCall(url, { retries: 5, mostRereads: 1 }))();
  expect([await outcome, requests.length]).toEqual(["unreachable", 2]);
});

test("An attempt without a connection has not been read", async () => {
  const server = createServer();
  const port = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  const start = await startCall(`http://127.0.0.1:${port}`, { retries: 1, mostRereads: 0 });
  const { outcome, heard } = start();
  expect(await outcome).toBe("unreachable");
  expect([...heard.retries, heard.isUnread()]).toEqual([false, true]);
});

test("An attempt that the provider is too busy for has not been read", async () => {
  const { url } = await startRaw(({ socket }) =>
    socket.write("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"),
  );
  const { outcome, heard } = (await startCall(url, { retries: 1 }))();
  expect(await outcome).toBe("overloaded");
  expect([...heard.retries, heard.isUnread()]).toEqual([false, true]);
});

test("A call that is aborted while it waits for its next attempt has not been read", async () => {
  const { url, requests } = await startRaw(({ socket }) =>
    socket.write("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"),
  );
  const { outcome, heard, leave } = (await startCall(url, { backoffMs: 60_000 }))();
  await until("the answer", () => requests.length === 1 && heard.isUnread());
  leave();
  expect([await outcome, heard.isUnread()]).toEqual(["left", true]);
});

test("A call that is aborted before it is sent has not been read, and one that is aborted later may have been", async () => {
  const { url, requests } = await startRaw(() => {});
  const start = await startCall(url, {});
  const { outcome, heard, leave } = start();
  await until("the request", () => requests.length === 1);
  leave();
  expect([await outcome, heard.isUnread()]).toEqual(["left", false]);
  const second = start();
  expect([await second.outcome, second.heard.isUnread(), requests.length]).toEqual([
    ...["left", true, 1],
  ]);
});

test("A reused connection that is reset immediately was already closed, and one that is reset later counts as an attempt", async () => {
  let resetMs = 0;
  const { url, requests } = await startRaw((exchange) =>
    exchange.earlier === 0
      ? exchange.socket.write(rawResponse(GOOD))
      : setTimeout(() => reset(exchange), resetMs),
  );
  const start = await startCall(url, { retries: 0 });
  expect(await start().outcome).toBe("completed");
  expect(await start().outcome).toBe("completed");
  expect(requests).toHaveLength(3);
  expect(await start().outcome).toBe("completed"); // on a connection that is kept again
  resetMs = 1_100;
  const { outcome, heard } = start();
  expect([await outcome, heard.isUnread(), requests.length]).toEqual(["unreachable", false, 5]);
});
