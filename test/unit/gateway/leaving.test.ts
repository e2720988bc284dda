import { createHook } from "node:async_hooks";
import { once } from "node:events";
import http2 from "node:http2";
import net from "node:net";
import type { ConnectRouter, HandlerContext } from "@connectrpc/connect";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { Patience } from "../../../services/grpc/patience.ts";
import { listenGrpc } from "../../../services/grpc/server.ts";
import { openRoom } from "../../../services/process/room.ts";
import { play, start } from "../../support/gateway.ts";
import { post } from "../../support/raw-http.ts";
import { CONVERSATION } from "../../support/stub-services.ts";
import { chat } from "../../support/stub-transports.ts";
import { watchTurns, workFor } from "../../support/turns.ts";
import { times, until, untilStill } from "../../support/until.ts";

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

function listen(patience?: Patience) {
  const grpc = { host: "127.0.0.1", port: 0, reflection: false, tls: null };
  return listenGrpc({ routes, interceptors: [] }, { grpc }, openRoom(), patience);
}

/** Begins a stream. */
async function ask(session: http2.ClientHttp2Session): Promise<void> {
  const path = `/${AIService.typeName}/StreamChat`;
  const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
  stream.on("error", () => {}).end(Buffer.alloc(5)); // the frame of an empty message
  await once(stream, "data");
}

test("a gRPC connection that breaks with many streams under way holds up nobody else", async () => {
  const server = await listen();
  const session = http2.connect(`http://127.0.0.1:${server.port}`);
  await Promise.all(times(READERS, () => ask(session)));
  await expectEndingsInTurns(() => session.destroy());
  await server.close(0);
});

/** Follows timers of these lengths, in ms. @returns how many run */
function watchTimers(...lengths: number[]): () => number {
  const running = new Set<number>();
  const hook = createHook({
    init(id, type, _trigger, timer: { _idleTimeout?: number }) {
      if (type === "Timeout" && lengths.includes(timer._idleTimeout ?? 0)) running.add(id);
    },
    destroy: (id) => void running.delete(id),
  }).enable();
  onTestFinished(() => void hook.disable());
  return () => running.size;
}

test("no timer holds what was a gRPC connection, or a stream of it", async () => {
  const patience = { requestMs: 30_000, readerMs: 123_456, idleMs: 654_321 };
  const running = watchTimers(patience.readerMs, patience.idleMs);
  const server = await listen(patience);
  const connect = async () => {
    const socket = net.connect(server.port, "127.0.0.1");
    const session = http2.connect("http://127.0.0.1", { createConnection: () => socket });
    session.on("error", () => {});
    await ask(session);
    return socket;
  };
  const sockets = await Promise.all(times(10, connect));
  expect(running()).toBe(20);
  for (const socket of sockets) socket.resetAndDestroy();
  await until("none to be left", () => running() === 0);
  await server.close(0);
});

test("streams over gRPC outlive a burst of clients that leave", { timeout: 60_000 }, async () => {
  let open = 0;
  const played = await play("over gRPC", (router) =>
    router.service(AIService, {
      async *streamChat(_request, { signal }) {
        open += 1;
        yield { chunk: "first" };
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        open -= 1;
      },
    }),
  );
  const steady = await chat(played.transport);
  const reader = steady.message[Symbol.asyncIterator]();
  expect((await reader.next()).value?.chunk).toBe("first");
  let failed: unknown;
  const waiting = reader.next().catch((error) => {
    failed = error;
  });
  for (let round = 0; round < 60; round++) {
    const clients = Array.from({ length: 100 }, () => new AbortController());
    const streams = clients.map(async ({ signal }) =>
      (await chat(played.transport, signal)).message[Symbol.asyncIterator](),
    );
    const readers = await Promise.all(streams);
    await Promise.all(readers.map((each) => each.next()));
    for (const client of clients) client.abort();
  }
  await until("the others to leave", () => open === 1);
  expect(failed).toBeUndefined();
  await played.close();
  await waiting;
});

test("a reader who leaves with a message on its way lets the handler end", async () => {
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
    openRoom(),
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
