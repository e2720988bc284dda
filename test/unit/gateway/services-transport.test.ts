import http2 from "node:http2";
import net from "node:net";
import { createClient } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { expect, test, vi } from "vitest";
import { createServicesTransport } from "../../../gateway/transport/services.ts";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { startStubServices } from "../../support/gateway.ts";
import { listen } from "../../support/sockets.ts";
import { chat } from "../../support/stub-transports.ts";
import { times, until } from "../../support/until.ts";

test("Services transport: calls reach all services behind a load balancer, and streams stay on their connection", async () => {
  const finished = Promise.withResolvers<void>();
  const serviceOf = (name: string) =>
    http2.createServer(
      connectNodeAdapter({
        routes: (router) =>
          router.service(AuthService, { login: () => ({ accessToken: name }) }).service(AIService, {
            async *streamChat() {
              yield { chunk: name };
              await finished.promise;
              yield { chunk: name };
            },
          }),
      }),
    );
  const services = ["one", "two"].map(serviceOf);
  let turn = 0;
  const balancer = net.createServer((socket) => services[turn++ % services.length]?.emit("connection", socket));
  const transport = createServicesTransport(`http://127.0.0.1:${await listen(balancer)}`, {}, 20);

  const stream = (await chat(transport)).message[Symbol.asyncIterator]();
  const { chunk } = (await stream.next()).value as { chunk: string };
  const answered = new Set<string>();
  await until("a response of each", async () => {
    answered.add(`${(await createClient(AuthService, transport).login({})).accessToken}`);
    return answered.size === 2;
  });
  finished.resolve();
  expect((await stream.next()).value).toMatchObject({ chunk });
  expect((await stream.next()).done).toBe(true);

  transport.close();
  balancer.close();
});

test("Services transport: a stream continues while thousands of other clients disconnect", async () => {
  let open = 0;
  const streamChat = async function* (_request: unknown, { signal }: { signal: AbortSignal }) {
    open += 1;
    yield { chunk: "first" };
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    open -= 1;
  };
  const stub = await startStubServices("over gRPC", (router) => router.service(AIService, { streamChat }));
  const begin = async (signal?: AbortSignal) => {
    const pieces = (await chat(stub.transport, signal)).message[Symbol.asyncIterator]();
    expect((await pieces.next()).value?.chunk).toBe("first");
    return pieces;
  };
  const failed = vi.fn();
  const steady = (await begin()).next().catch(failed);
  for (let round = 0; round < 60; round++) {
    const clients = times(100, () => new AbortController());
    await Promise.all(clients.map(({ signal }) => begin(signal)));
    for (const client of clients) client.abort();
  }
  await until("the end of the other streams", () => open === 1);
  expect(failed).not.toHaveBeenCalled();
  await stub.close();
  await steady;
});
