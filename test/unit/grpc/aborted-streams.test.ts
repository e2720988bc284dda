import { once } from "node:events";
import http2 from "node:http2";
import { expect, onTestFinished, test, vi } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { listenGrpc } from "../../../services/grpc/server.ts";
import { framed } from "../../support/raw-grpc.ts";
import { times, until } from "../../support/until.ts";

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

test("nothing is printed about clients that leave while their response is written", async () => {
  const printed = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => printed.mockRestore());
  const content = "x".repeat(200_000);
  const ended: string[] = [];
  const routes: Parameters<typeof listenGrpc>[0]["routes"] = (router) =>
    router.service(AIService, {
      chat: (_request, { signal }) => {
        signal.addEventListener("abort", () => ended.push("Chat"));
        return { content };
      },
      async *streamChat(_request, { signal }) {
        signal.addEventListener("abort", () => ended.push("StreamChat"));
        for (;;) yield { chunk: content };
      },
    });
  const grpc = { host: "127.0.0.1", port: 0, reflection: false, tls: null };
  const server = await listenGrpc({ routes, interceptors: [] }, { grpc });
  for (const leave of ["cancel", "destroy"]) {
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    const open = async (method: string) => {
      const path = `/${AIService.typeName}/${method}`;
      const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
      stream.on("error", () => {}).end(framed(new Uint8Array()));
      await once(stream, "response");
      return stream;
    };
    const streams = await Promise.all(times(20, (i) => open(i % 2 ? "Chat" : "StreamChat")));
    if (leave === "cancel") for (const stream of streams) stream.close(http2.constants.NGHTTP2_CANCEL);
    else session.destroy();
    await until("the end of the calls", () => ended.length >= 20);
    ended.splice(0);
    session.destroy();
  }
  await server.close(0);
  expect(printed).not.toHaveBeenCalled();
});

test("no abort signal has a listener for each open gRPC call: every start and end would look through them all", async () => {
  const routes: Parameters<typeof listenGrpc>[0]["routes"] = (router) =>
    router.service(AIService, {
      async *streamChat(_request, { signal }) {
        yield { chunk: "one" };
        await once(signal, "abort");
      },
    });
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
  const server = await listenGrpc(
    { routes, interceptors: [] },
    { grpc: { host: "127.0.0.1", port: 0, reflection: false, tls: null } },
  );
  const session = http2.connect(`http://127.0.0.1:${server.port}`);
  const path = `/${AIService.typeName}/StreamChat`;
  await Promise.all(
    times(50, async () => {
      const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
      stream.on("error", () => {}).end(framed(new Uint8Array()));
      await once(stream, "data");
    }),
  );
  expect(Math.max(...counts.values())).toBeLessThan(20);
  session.destroy();
  await server.close(0);
});
