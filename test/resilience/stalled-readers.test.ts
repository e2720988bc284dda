import net from "node:net";
import { expect, test } from "vitest";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { startSuiteGateway } from "../support/http/gateway.ts";
import { post } from "../support/http/raw.ts";
import { CONVERSATION } from "../support/http/stub-services.ts";

const STALLED_MS = 400;
/** More than the buffers of two sockets. */
const LARGE = "x".repeat(32 * 1024 * 1024);

let isLeft: PromiseWithResolvers<void>;
const ended = Promise.withResolvers<string>();
const server = await startSuiteGateway(
  (router) =>
    router.service(AIService, {
      async chat() {
        await ended.promise;
        return { content: "the reply" };
      },
      async *streamChat(_request, { signal }) {
        isLeft = Promise.withResolvers<void>();
        signal.addEventListener("abort", () => isLeft.resolve());
        for (;;) yield { chunk: LARGE };
      },
    }),
  { writeTimeoutMs: STALLED_MS },
);

/**
 * Sends requests and reads no response.
 * @returns the time until the disconnect, in ms
 */
async function readNothing(request: string): Promise<number> {
  const accepted = new Promise<net.Socket>((resolve) =>
    server.gateway.app.server.once("connection", resolve),
  );
  const client = net.connect(server.port, "127.0.0.1").pause();
  client.on("error", () => {}).write(request);
  const socket = await accepted;
  const startedAt = performance.now();
  await new Promise((resolve) => socket.once("close", resolve));
  client.destroy();
  return performance.now() - startedAt;
}

/** As many requests as a connection may have in progress, for more than the buffers of sockets. */
const DOCUMENTS = "GET /docs/scalar.js HTTP/1.1\r\nHost: x\r\n\r\n".repeat(16);

test("Stalled client: is disconnected if it does not read documents", async () => {
  const lasted = await readNothing(DOCUMENTS);
  expect(lasted).toBeGreaterThanOrEqual(STALLED_MS - 5);
});

test("Stalled client: is disconnected if it does not read a stream, and the call ends", async () => {
  const lasted = await readNothing(post("/ai/stream", CONVERSATION));
  expect(lasted).toBeGreaterThanOrEqual(STALLED_MS - 5);
  await isLeft.promise;
});

test("Stalled client: is not disconnected while it waits for a response", async () => {
  const answer = server.send("POST", "/ai/chat", CONVERSATION);
  await readNothing(DOCUMENTS); // some time passes
  ended.resolve("");
  expect(await answer).toMatchObject({ status: 200, body: { content: "the reply" } });
});
