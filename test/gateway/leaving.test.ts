import { once } from "node:events";
import http2 from "node:http2";
import net from "node:net";
import type { ConnectRouter, HandlerContext } from "@connectrpc/connect";
import { beforeEach, expect, test } from "vitest";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { listenGrpc } from "../../services/grpc/server.ts";
import { openRoom } from "../../services/process/room.ts";
import { watchTurns, workFor } from "../turns.ts";
import { times, untilStill } from "../until.ts";
import { start } from "./harness.ts";
import { CONVERSATION } from "./listeners.ts";
import { post } from "./wire.ts";

const READERS = 200;

let ended: number;
beforeEach(() => {
  ended = 0;
});

/** An AI whose streams go on until their readers leave, which costs a millisecond each. */
function routes(router: ConnectRouter): void {
  router.service(AIService, {
    async *streamChat(_request, { signal }: HandlerContext) {
      signal.addEventListener("abort", () => {
        workFor(1);
        ended += 1;
      });
      yield { chunk: "one" };
      await once(signal, "abort");
    },
  });
}

/** Has all readers leave, and looks how many streams end in one turn of the event loop. */
async function expectEndingsInTurns(leave: () => void): Promise<void> {
  const most = watchTurns(() => ended);
  leave();
  await untilStill("all to end", () => ended);
  expect(ended).toBeGreaterThanOrEqual(READERS);
  expect(most()).toBeLessThan(READERS / 2);
}

test("readers of event streams who leave at once hold up nobody else", async () => {
  const edge = await start(routes);
  const connect = async () => {
    const socket = net.connect(edge.port, "127.0.0.1");
    socket.write(post("/ai/stream", CONVERSATION));
    await once(socket, "data");
    return socket;
  };
  const sockets = await Promise.all(times(READERS, connect));
  await expectEndingsInTurns(() => {
    for (const socket of sockets) socket.destroy();
  });
  await edge.close();
});

test("a gRPC connection that breaks with many streams under way holds up nobody else", async () => {
  const grpc = { host: "127.0.0.1", port: 0, reflection: false, tls: null };
  const server = await listenGrpc({ routes, interceptors: [] }, { grpc }, openRoom());
  const session = http2.connect(`http://127.0.0.1:${server.port}`);
  const path = `/${AIService.typeName}/StreamChat`;
  const ask = async () => {
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
    stream.on("error", () => {}).end(Buffer.alloc(5)); // the frame of an empty message
    await once(stream, "data");
  };
  await Promise.all(times(READERS, ask));
  await expectEndingsInTurns(() => session.destroy());
  await server.close(0);
});
