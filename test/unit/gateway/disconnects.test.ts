import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { startStubServices } from "../../support/gateway.ts";
import { chat } from "../../support/stub-transports.ts";
import { until } from "../../support/until.ts";

test("gRPC stream: continues while thousands of other clients disconnect", async () => {
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
  await until("the end of the other streams", () => open === 1);
  expect(failed).toBeUndefined();
  await stub.close();
  await waiting;
});
