import { Code, ConnectError, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { onComplete } from "../../../services/interceptors/observe.ts";
import { transportKinds } from "../../support/gateway.ts";
import { chat, errorOf, openTransport } from "../../support/stub-transports.ts";
import { until } from "../../support/until.ts";

const { login } = AuthService.method;

describe.each(transportKinds)("Call %s", (way) => {
  test("is unimplemented for a method without a handler", async () => {
    const transport = await openTransport(way, (router) => router.service(AuthService, {}));
    const error = await errorOf(transport.unary(login, undefined, undefined, undefined, {}));
    expect(error.code).toBe(Code.Unimplemented);
    expect((await errorOf(chat(transport))).code).toBe(Code.Unimplemented);
  });

  test.each([
    ["with its response", undefined],
    ["at its deadline", 1_000],
  ])("that ends %s fires the handler's signal, so that unfinished work stops", async (_, timeoutMs) => {
    let context: HandlerContext | undefined;
    const transport = await openTransport(way, (router) =>
      router.service(AuthService, {
        login: (_request, given) => {
          context = given;
          const left = given.timeoutMs();
          if (timeoutMs) expect(left).toSatisfy((ms: number) => ms > 0 && ms <= timeoutMs);
          return timeoutMs ? new Promise(() => {}) : {};
        },
      }),
    );
    const call = transport.unary(login, undefined, timeoutMs, undefined, {});
    if (timeoutMs) expect((await errorOf(call)).code).toBe(Code.DeadlineExceeded);
    await until("the abort", () => context?.signal.aborted);
    if (!timeoutMs) await call;
  });

  test.each(["starts", "is read"])("that streams reports its end if the client leaves before it %s", async (moment) => {
    const [held, gate] = [Promise.withResolvers<AbortSignal>(), Promise.withResolvers<void>()];
    const hold: Interceptor = (next) => async (req) => {
      held.resolve(req.signal);
      if (moment === "starts") await gate.promise;
      return next(req);
    };
    const results: unknown[] = [];
    const observe: Interceptor = (next) => (req) => onComplete(next, req, (error) => void results.push(error));
    const streamChat = async function* (_request: unknown, { signal }: HandlerContext) {
      signal.throwIfAborted();
      yield { chunk: "a" };
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      signal.throwIfAborted();
    };
    const transport = await openTransport(way, (router) => router.service(AIService, { streamChat }), [observe, hold]);
    const client = new AbortController();
    const call = chat(transport, client.signal);
    const signal = await held.promise;
    if (moment === "is read") await call;
    client.abort();
    if (moment === "starts") expect((await errorOf(call)).code).toBe(Code.Canceled);
    await until("the abort at the services", () => signal.aborted);
    gate.resolve();
    await until("its end", () => results.length > 0);
    expect(results).toEqual([expect.any(ConnectError)]);
  });
});
