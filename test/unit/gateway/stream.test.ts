import { text } from "node:stream/consumers";
import { Code, type HandlerContext } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { failWith, transportKinds } from "../../support/http/gateway.ts";
import { startChatServices } from "../../support/http/stub-services.ts";
import { until } from "../../support/until.ts";

const DONE = "data: [DONE]\n\n";
/** The text of a response as it arrives. */
const piecesOf = ({ body }: Response) =>
  (body as ReadableStream).pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();

describe.each(transportKinds)("POST /ai/stream %s", (way) => {
  test("sends each message as one data line, then [DONE], with the specified headers", async () => {
    const edge = await startChatServices(way, async function* (context) {
      context.responseHeader.set("ratelimit-remaining", "99");
      yield { chunk: 'line\nbreak "quoted" 🗝️\u2028' };
      yield { chunk: "two" };
    });
    const answer = await edge.ask();
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      connection: "keep-alive",
      "x-accel-buffering": "no",
      "x-request-id": "id-1",
      "ratelimit-remaining": "99",
      "x-content-type-options": "nosniff",
    });
    const first = String.raw`data: {"chunk":"line\nbreak \"quoted\" 🗝️\u2028"}`;
    expect(await answer.text()).toBe(`${first}\n\ndata: {"chunk":"two"}\n\n${DONE}`);
  });

  test("sends a later bug as a masked error event and logs it", async () => {
    const edge = await startChatServices(way, async function* () {
      yield { chunk: "a" };
      throw new Error("password=hunter2");
    });
    const text = await (await edge.ask()).text();
    expect(text).toMatch(
      /^data: \{"chunk":"a"\}\n\ndata: \{"error":"Something went wrong[^"]*","code":"INTERNAL"\}\n\ndata: \[DONE\]\n\n$/,
    );
    expect(edge.logs.filter((line) => line.level === 50)).toMatchObject([{ requestId: "id-1" }]);
  });

  test("sends no header before the first message, then each message immediately", async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const edge = await startChatServices(way, async function* () {
      await gates[0].promise;
      yield { chunk: "first" };
      await gates[1].promise;
      yield { chunk: "second" };
    });
    const response = edge.ask();
    const early = await Promise.race([
      response,
      new Promise((resolve) => setTimeout(resolve, 100, "silence")),
    ]);
    expect(early).toBe("silence");
    gates[0].resolve();
    const pieces = piecesOf(await response);
    expect((await pieces.next()).value).toBe('data: {"chunk":"first"}\n\n');
    gates[1].resolve();
    expect(await text(pieces)).toBe(`data: {"chunk":"second"}\n\n${DONE}`);
  });

  test("sends heartbeat comments during silence, even before the first message", async () => {
    const gate = Promise.withResolvers<void>();
    const edge = await startChatServices(
      way,
      async function* (context) {
        context.responseHeader.set("x-ai-ignored", "temperature");
        await gate.promise;
        yield { chunk: "late" };
        throw failWith(Reason.UNAUTHENTICATED, Code.Unauthenticated, "The session has ended.");
      },
      { keepAliveMs: 20 },
    );
    const answer = await edge.ask();
    expect(answer.status).toBe(200);
    if (way === "in process") expect(answer.headers.get("x-ai-ignored")).toBe("temperature"); // elsewhere it may follow
    const pieces = piecesOf(answer);
    expect((await pieces.next()).value).toMatch(/^(: keep-alive\n\n)+$/);
    gate.resolve();
    expect((await text(pieces)).replaceAll(": keep-alive\n\n", "")).toBe(
      `data: {"chunk":"late"}\n\ndata: {"error":"The session has ended.","code":"UNAUTHENTICATED"}\n\n${DONE}`,
    );
  });

  test("ends the call if its client reads nothing and disconnects", async () => {
    let context: HandlerContext | undefined;
    let isClosed = false;
    const edge = await startChatServices(way, async function* (given) {
      context = given;
      try {
        for (;;) yield { chunk: "a".repeat(1_000_000) };
      } finally {
        isClosed = true;
      }
    });
    const client = new AbortController();
    await (await edge.ask(client.signal)).body?.getReader().read();
    client.abort();
    await until("the abort", () => context?.signal.aborted && isClosed);
    await until("the log line", () =>
      edge.logs.some((l) => l.clientGone === true && l.route === "/ai/stream"),
    );
    expect(edge.logs.filter((line) => (line.level as number) >= 40)).toEqual([]);
  });
});
