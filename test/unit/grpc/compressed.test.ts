import http2 from "node:http2";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, test } from "vitest";
import { ChatRequestSchema } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { openRoom } from "../../../services/process/room.ts";
import { startApp, type TestApp } from "../../support/app.ts";
import { framed } from "../../support/raw-grpc.ts";
import { until } from "../../support/until.ts";

/** Room for one of the largest requests, and far more of the smallest. */
const ROOM = 30_000_000;
const COMPRESSED = 1;

let app: TestApp;
beforeAll(async () => {
  app = await startApp({ room: openRoom(ROOM) });
});
afterAll(() => app.close());

const held = () => app.providers[0]?.requests.filter(({ closedAt }) => closedAt === undefined).length;

test.each([
  ["Chat", "gzip", gzipSync],
  ["StreamChat", "gzip", gzipSync],
  ["Chat", "br", brotliCompressSync],
  ["StreamChat", "br", brotliCompressSync],
])("%s, compressed by %s, holds no more room than what it has become while it waits", async (rpc, name, compress) => {
  const { accessToken } = await app.signIn();
  const session = http2.connect(app.grpcUrl);
  const silent = { provider: "provider-a", messages: [{ role: "user", content: "case: silent" }] };
  const body = framed(compress(toBinary(ChatRequestSchema, create(ChatRequestSchema, silent))), { flags: COMPRESSED });
  for (let calls = 1; calls <= 5; calls++) {
    const stream = session.request({
      ":method": "POST",
      ":path": `/gatehouse.ai.v1.AIService/${rpc}`,
      "content-type": "application/grpc",
      "grpc-encoding": name,
      authorization: `Bearer ${accessToken}`,
    });
    stream.on("error", () => {}).end(body);
    await until("the next to wait for its provider", () => held() === calls);
  }
  session.destroy();
  await until("the provider to be left", () => held() === 0);
});
