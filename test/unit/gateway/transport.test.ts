import { Code, ConnectError, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { type CallResult, onComplete } from "../../../services/interceptors/observe.ts";
import { transportKinds } from "../../support/gateway.ts";
import { chat, errorOf, openTransports } from "../../support/stub-transports.ts";
import { until } from "../../support/until.ts";

const { login } = AuthService.method;

describe.each(transportKinds)("Unary call %s", (way) => {
  const open = openTransports(way);

  test("ends at its deadline, which the handler sees", async () => {
    let left: number | undefined;
    const transport = await open((router) =>
      router.service(AuthService, {
        login: (_request, context) => {
          left = context.timeoutMs();
          return new Promise(() => {});
        },
      }),
    );
    const error = await errorOf(transport.unary(login, undefined, 60, undefined, {}));
    expect(error.code).toBe(Code.DeadlineExceeded);
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(60);
  });

  test("fires the handler's signal after its end, so that unfinished work stops", async () => {
    let context: HandlerContext | undefined;
    const transport = await open((router) =>
      router.service(AuthService, {
        login: (_request, given) => {
          context = given;
          return {};
        },
      }),
    );
    await transport.unary(login, undefined, undefined, undefined, {});
    await until("the abort", () => context?.signal.aborted);
  });
});

describe.each(transportKinds)("Streaming call %s", (way) => {
  const open = openTransports(way);

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
