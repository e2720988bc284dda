import { once } from "node:events";
import http2 from "node:http2";
import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { listenGrpc } from "../../../services/grpc/server.ts";
import { framed } from "../../support/raw-grpc.ts";
import { until } from "../../support/until.ts";

test("a gRPC stream ends when its client leaves without having read a message larger than its window", async () => {
  let isEnded = false;
  const routes: Parameters<typeof listenGrpc>[0]["routes"] = (router) =>
    router.service(AIService, {
      async *streamChat() {
        try {
          for (;;) yield { chunk: "x".repeat(100_000) };
        } finally {
          isEnded = true;
        }
      },
    });
  const grpc = { host: "127.0.0.1", port: 0, reflection: false, tls: null };
  const server = await listenGrpc({ routes, interceptors: [] }, { grpc });
  const session = http2.connect(`http://127.0.0.1:${server.port}`);
  const path = `/${AIService.typeName}/StreamChat`;
  const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
  stream.end(framed(new Uint8Array()));
  await once(stream, "response");
  stream.close(http2.constants.NGHTTP2_CANCEL);
  await until("the end of the handler", () => isEnded);
  expect(isEnded).toBe(true);
  session.destroy();
  await server.close(0);
});
