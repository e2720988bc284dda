import http2 from "node:http2";
import net from "node:net";
import {
  Code,
  ConnectError,
  createClient,
  type HandlerContext,
  type Interceptor,
} from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { describe, expect, test, vi } from "vitest";
import { createServicesTransport } from "../../../gateway/transport/services.ts";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { onComplete } from "../../../services/interceptors/observe.ts";
import { CALL_ENDED } from "../../../services/platform/rpc/errors.ts";
import { type Routes, start, transportKinds } from "../../support/http/gateway.ts";
import { chat, errorOf, openTransport } from "../../support/http/stub-services.ts";
import { listen } from "../../support/network/sockets.ts";
import { forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const { login } = AuthService.method;

describe.each(transportKinds)("Call %s", (way) => {
  test("is unimplemented for a method without a handler", async () => {
    const transport = await openTransport(way, (router) => router.service(AuthService, {}));
    const error = await errorOf(transport.unary(login, undefined, undefined, undefined, {}));
    expect(error.code).toBe(Code.Unimplemented);
    expect((await errorOf(chat(transport))).code).toBe(Code.Unimplemented);
  });

  test.each(["with its response", "because its client disconnects"])(
    "that ends %s fires the handler's signal, so that unfinished work stops",
    async (end) => {
      let signal: AbortSignal | undefined;
      const login = (_request: unknown, context: HandlerContext) => {
        signal = context.signal;
        return end === "with its response" ? {} : new Promise<never>(() => {});
      };
      const routes: Routes = (router) => router.service(AuthService, { login });
      const { url } = await forTest(start(routes, { transportKind: way }));
      const body = JSON.stringify({ email: "a@b.cd", password: "x" });
      const headers = { "content-type": "application/json" };
      const options = { method: "POST", headers, body, signal: AbortSignal.timeout(1_000) };
      await fetch(`${url}/auth/login`, options).catch(() => {});
      await until("the abort", () => signal?.aborted);
    },
  );

  test.each(["starts", "is read"])(
    "that streams reports its end if the client disconnects before it %s",
    async (moment) => {
      const [held, gate] = [Promise.withResolvers<AbortSignal>(), Promise.withResolvers<void>()];
      const hold: Interceptor = (next) => async (req) => {
        held.resolve(req.signal);
        if (moment === "starts") await gate.promise;
        return next(req);
      };
      const results: unknown[] = [];
      const observe: Interceptor = (next) => (req) =>
        onComplete(next, req, (error) => void results.push(error));
      const streamChat = async function* (_request: unknown, { signal }: HandlerContext) {
        signal.throwIfAborted();
        yield { chunk: "a" };
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        signal.throwIfAborted();
      };
      const transport = await openTransport(
        way,
        (router) => router.service(AIService, { streamChat }),
        [observe, hold],
      );
      const client = new AbortController();
      const call = chat(transport, client.signal);
      const signal = await held.promise;
      if (moment === "is read") await call;
      client.abort(CALL_ENDED);
      if (moment === "starts") expect((await errorOf(call)).code).toBe(Code.Canceled);
      await until("the abort at the services", () => signal.aborted);
      gate.resolve();
      await until("its end", () => results.length > 0);
      expect(results).toEqual([expect.any(ConnectError)]);
    },
  );
});

test("Services transport: calls reach all services behind a load balancer, and streams stay on their connection", async () => {
  const finished = Promise.withResolvers<void>();
  const serviceOf = (name: string) =>
    http2.createServer(
      connectNodeAdapter({
        routes: (router) =>
          router.service(AuthService, { login: () => ({ accessToken: name }) }).service(AIService, {
            async *streamChat() {
              yield { chunk: name };
              await finished.promise;
              yield { chunk: name };
            },
          }),
      }),
    );
  const services = ["one", "two"].map(serviceOf);
  let turn = 0;
  const balancer = net.createServer((socket) =>
    services[turn++ % services.length]?.emit("connection", socket),
  );
  const transport = createServicesTransport(`http://127.0.0.1:${await listen(balancer)}`);

  const stream = (await chat(transport)).message[Symbol.asyncIterator]();
  const { chunk } = (await stream.next()).value as { chunk: string };
  const answered = new Set<string>();
  await until("a response of each", async () => {
    answered.add(`${(await createClient(AuthService, transport).login({})).accessToken}`);
    return answered.size === 2;
  });
  finished.resolve();
  expect((await stream.next()).value).toMatchObject({ chunk });
  expect((await stream.next()).done).toBe(true);

  transport.close();
  balancer.close();
});

test("Services transport: a stream continues while thousands of other clients disconnect", async () => {
  let open = 0;
  const streamChat = async function* (_request: unknown, { signal }: { signal: AbortSignal }) {
    open += 1;
    yield { chunk: "first" };
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    open -= 1;
  };
  const transport = await openTransport("over gRPC", (router) =>
    router.service(AIService, { streamChat }),
  );
  const begin = async (signal?: AbortSignal) => {
    const pieces = (await chat(transport, signal)).message[Symbol.asyncIterator]();
    expect((await pieces.next()).value?.chunk).toBe("first");
    return pieces;
  };
  const failed = vi.fn();
  (await begin()).next().catch(failed);
  for (let round = 0; round < (process.env.TEST_FULL ? 60 : 20); round++) {
    const clients = times(100, () => new AbortController());
    await Promise.all(clients.map(({ signal }) => begin(signal)));
    for (const client of clients) client.abort();
  }
  await until("the end of the other streams", () => open === 1);
  expect(failed).not.toHaveBeenCalled();
});
