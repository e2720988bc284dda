import { once } from "node:events";
import http2 from "node:http2";
import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { listenGrpc } from "../../../services/grpc/server.ts";
import { startStubServices } from "../../support/gateway.ts";
import { chat } from "../../support/stub-transports.ts";
import { until } from "../../support/until.ts";

test("gRPC streams continue while thousands of other clients disconnect", async () => {
  let open = 0;
  const stub = await startStubServices("over gRPC", (router) =>
    router.service(AIService, {
      async *streamChat(_request, { signal }) {
        open += 1;
        yield { chunk: "first" };
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        open -= 1;
      },
    }),
  );
  const steady = await chat(stub.transport);
  const reader = steady.message[Symbol.asyncIterator]();
  expect((await reader.next()).value?.chunk).toBe("first");
  let failed: unknown;
  const waiting = reader.next().catch((error) => {
    failed = error;
  });
  for (let round = 0; round < 60; round++) {
    const clients = Array.from({ length: 100 }, () => new AbortController());
    const streams = clients.map(async ({ signal }) =>
      (await chat(stub.transport, signal)).message[Symbol.asyncIterator](),
    );
    const readers = await Promise.all(streams);
    await Promise.all(readers.map((each) => each.next()));
    for (const client of clients) client.abort();
  }
  await until("the others to leave", () => open === 1);
  expect(failed).toBeUndefined();
  await stub.close();
  await waiting;
});

test("gRPC stream: the handler ends if its client disconnects while a message is sent", async () => {
  let isOver = false;
  const grpc = { host: "127.0.0.1", port: 0, reflection: false, tls: null };
  const server = await listenGrpc(
    {
      interceptors: [],
      routes: (router) =>
        router.service(AIService, {
          async *streamChat() {
            try {
              for (;;) yield { chunk: "more than a reader's window holds".repeat(10_000) };
            } finally {
              isOver = true;
            }
          },
        }),
    },
    { grpc },
  );
  const client = http2.connect(`http://127.0.0.1:${server.port}`);
  const stream = client.request({
    ":method": "POST",
    ":path": `/${AIService.typeName}/StreamChat`,
    "content-type": "application/grpc+proto",
  });
  stream.end(Buffer.alloc(5)); // the frame of an empty message
  await once(stream, "response");
  expect(isOver).toBe(false);
  stream.close(http2.constants.NGHTTP2_CANCEL);
  await until("the handler to end", () => isOver);
  client.destroy();
  await server.close(0);
});
