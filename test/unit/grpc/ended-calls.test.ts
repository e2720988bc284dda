import http2 from "node:http2";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { listenGrpc } from "../../../services/grpc/server.ts";
import { failureOf, framed, send } from "../../support/raw-grpc.ts";

test("gRPC port: a unary call ends at its deadline and at the end of a shutdown, whatever its handler waits for", async () => {
  const grpc = { host: "127.0.0.1", port: 0, reflection: false, tls: null };
  const chat = () => new Promise<never>(() => {});
  const server = await listenGrpc(
    { routes: (router) => router.service(AIService, { chat }), interceptors: [] },
    { grpc },
  );
  const client = http2.connect(`http://127.0.0.1:${server.port}`);
  const call = (headers = {}) => {
    const head = { ":path": `/${AIService.typeName}/Chat`, "content-type": "application/grpc", ...headers };
    return send(client, head, framed(new Uint8Array())).then(failureOf);
  };
  const open = call();
  expect(await call({ "grpc-timeout": "100m" })).toMatchObject({ code: Code.DeadlineExceeded });
  await server.close(0);
  expect(await open).toEqual({ code: Code.Unavailable, reason: Reason.UNAVAILABLE });
  client.destroy();
});
