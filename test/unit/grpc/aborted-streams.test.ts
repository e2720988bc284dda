import { once } from "node:events";
import http2 from "node:http2";
import { expect, onTestFinished, test, vi } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { listenGrpc } from "../../../services/grpc/server.ts";
import { framed } from "../../support/raw-grpc.ts";
import { times, until } from "../../support/until.ts";

/** Serves an AI service on a gRPC port. `open` begins a call and waits for an event of its stream. */
async function serve(routes: Parameters<typeof listenGrpc>[0]["routes"]) {
  const grpc = { host: "127.0.0.1", port: 0, reflection: false, tls: null };
  const server = await listenGrpc({ routes, interceptors: [] }, { grpc });
  const open = async (client: http2.ClientHttp2Session, method: string, event: "response" | "data") => {
    const path = `/${AIService.typeName}/${method}`;
    const stream = client.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
    stream.on("error", () => {}).end(framed(new Uint8Array()));
    await once(stream, event);
    return stream;
  };
  const session = () => http2.connect(`http://127.0.0.1:${server.port}`);
  return { open, session, close: () => server.close(0) };
}

test("gRPC stream: the handler ends if its client disconnects before it reads a message larger than its window", async () => {
  let isEnded = false;
  const { open, session, close } = await serve((router) =>
    router.service(AIService, {
      async *streamChat() {
        try {
          for (;;) yield { chunk: "x".repeat(100_000) };
        } finally {
          isEnded = true;
        }
      },
    }),
  );
  const client = session();
  const stream = await open(client, "StreamChat", "response");
  expect(isEnded).toBe(false);
  stream.close(http2.constants.NGHTTP2_CANCEL);
  await until("the end of the handler", () => isEnded);
  client.destroy();
  await close();
});

test("gRPC port: prints nothing about clients that disconnect while their response is written", async () => {
  const printed = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => printed.mockRestore());
  const content = "x".repeat(200_000);
  const ended: string[] = [];
  const { open, session, close } = await serve((router) =>
    router.service(AIService, {
      chat: (_request, { signal }) => {
        signal.addEventListener("abort", () => ended.push("Chat"));
        return { content };
      },
      async *streamChat(_request, { signal }) {
        signal.addEventListener("abort", () => ended.push("StreamChat"));
        for (;;) yield { chunk: content };
      },
    }),
  );
  for (const leave of ["cancel", "destroy"]) {
    const client = session();
    const methods = times(20, (i) => (i % 2 ? "Chat" : "StreamChat"));
    const streams = await Promise.all(methods.map((method) => open(client, method, "response")));
    if (leave === "cancel") for (const stream of streams) stream.close(http2.constants.NGHTTP2_CANCEL);
    else client.destroy();
    await until("the end of the calls", () => ended.length >= 20);
    ended.splice(0);
    client.destroy();
  }
  await close();
  expect(printed).not.toHaveBeenCalled();
});

test("gRPC port: no abort signal has a listener per open call, since each start and end would visit all", async () => {
  const counts = new Map<unknown, number>();
  const { addEventListener } = EventTarget.prototype;
  const spy = vi.spyOn(EventTarget.prototype, "addEventListener").mockImplementation(function (
    this: unknown,
    ...given
  ) {
    counts.set(this, (counts.get(this) ?? 0) + 1);
    addEventListener.apply(this as EventTarget, given);
  });
  onTestFinished(() => spy.mockRestore());
  const { open, session, close } = await serve((router) =>
    router.service(AIService, {
      async *streamChat(_request, { signal }) {
        yield { chunk: "one" };
        await once(signal, "abort");
      },
    }),
  );
  const client = session();
  await Promise.all(times(50, () => open(client, "StreamChat", "data")));
  expect(Math.max(...counts.values())).toBeLessThan(20);
  client.destroy();
  await close();
});
