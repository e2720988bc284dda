import { Code, ConnectError, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { type CallResult, onComplete } from "../../../services/interceptors/observe.ts";
import { transportKinds } from "../../support/gateway.ts";
import { chat, errorOf, openTransports } from "../../support/stub-transports.ts";
import { until } from "../../support/until.ts";

describe.each(transportKinds)("Streaming call %s", (way) => {
  const open = openTransports(way);

  test("delivers nothing after an abort, and the handler's finally runs", async () => {
    const events: string[] = [];
    const transport = await open((router) =>
      router.service(AIService, {
        async *streamChat(_request, { signal }) {
          signal.addEventListener("abort", () => events.push("aborted"));
          try {
            for (let i = 0; ; i++) yield { chunk: String(i) };
          } finally {
            events.push("finally");
          }
        },
      }),
    );
    const client = new AbortController();
    const answer = await chat(transport, client.signal);
    const delivered: string[] = [];
    const read = async () => {
      for await (const { chunk } of answer.message) {
        delivered.push(chunk);
        if (chunk === "3") client.abort();
      }
    };
    expect((await errorOf(read())).code).toBe(Code.Canceled);
    await until("the finally", () => events.includes("aborted") && events.includes("finally"));
    expect(delivered).toEqual(["0", "1", "2", "3"]);
  });

  test("reports its end to interceptors if the client aborts before it reads", async () => {
    const results: CallResult[] = [];
    const observe: Interceptor = (next) => (req) => onComplete(next, req, (result) => void results.push(result));
    const streamChat = async function* (_request: unknown, { signal }: HandlerContext) {
      yield { chunk: "a" };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      signal.throwIfAborted();
    };
    const transport = await open((router) => router.service(AIService, { streamChat }), [observe]);
    const client = new AbortController();
    await chat(transport, client.signal);
    client.abort();
    await until("its end", () => results.length > 0);
    expect(results).toEqual([{ error: expect.any(ConnectError) }]);
  });

  test("rejects with the error that its consumer throws", async () => {
    const transport = await open((router) =>
      router.service(AIService, {
        async *streamChat() {
          for (const chunk of ["a", "b"]) yield { chunk };
        },
      }),
    );
    const answer = await chat(transport);
    const read = async () => {
      for await (const _ of answer.message) throw new ConnectError("The reader broke.", Code.DataLoss);
    };
    expect((await errorOf(read())).code).toBe(Code.DataLoss);
  });

  test("reports its end to interceptors if the client disconnects before it starts", async () => {
    const gate = Promise.withResolvers<void>();
    let held: AbortSignal | undefined;
    const hold: Interceptor = (next) => async (req) => {
      held = req.signal;
      await gate.promise;
      return next(req);
    };
    const endings: CallResult[] = [];
    const watch: Interceptor = (next) => (req) => onComplete(next, req, (ending) => void endings.push(ending));
    const streamChat = async function* (_request: unknown, { signal }: HandlerContext) {
      signal.throwIfAborted();
      yield { chunk: "a" };
    };
    const transport = await open((router) => router.service(AIService, { streamChat }), [watch, hold]);
    const client = new AbortController();
    const failed = errorOf(chat(transport, client.signal));
    await until("the call", () => held);
    client.abort();
    expect((await failed).code).toBe(Code.Canceled);
    await until("the abort at the services", () => held?.aborted);
    gate.resolve();
    await until("its end", () => endings.length > 0);
    expect(endings).toEqual([{ error: expect.any(ConnectError) }]);
  });
});
