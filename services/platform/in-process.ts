import { create, type DescMethod, type MessageInitShape } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createMethodImplSpec,
  createServiceImplSpec,
  type Interceptor,
  type MethodImplSpec,
  type StreamResponse,
  type Transport,
  type UnaryResponse,
} from "@connectrpc/connect";
import { InProcessCall } from "./in-process-call.ts";

/** Runs a call, or an interceptor's copy of it. */
type Run = (request: Pick<InProcessCall, "call" | "message">) => Promise<UnaryResponse | StreamResponse>;

/**
 * A transport to services in the same process. Messages are passed by reference and never serialized, so neither side may
 * change a message that it has sent or received, and message sizes are not limited. In every other respect (headers, errors,
 * deadlines, cancellation, masking of unknown errors) it behaves as gRPC does. One test suite runs over both.
 * @param routes fills the router of the gRPC server
 * @param interceptors the interceptors of that server, outermost first
 */
export function createInProcessTransport(
  routes: (router: ConnectRouter) => unknown,
  interceptors: readonly Interceptor[] = [],
): Transport {
  const methods = collect(routes, interceptors);
  const find = (method: DescMethod): Run => {
    const run = methods.get(method);
    if (!run) throw new ConnectError(`${method} is not implemented`, Code.Unimplemented);
    return run;
  };
  return {
    async unary(method, signal, timeoutMs, header, input, contextValues) {
      const run = find(method);
      const options = { signal, timeoutMs, header, contextValues };
      const call = new InProcessCall(method, create(method.input, input), options);
      const complete = (response: UnaryResponse | StreamResponse) => {
        call.end();
        return response;
      };
      return (await call.run(async () => run(call), complete)) as never;
    },
    async stream(method, signal, timeoutMs, header, input, contextValues) {
      const run = find(method);
      const call = new InProcessCall(method, input, { signal, timeoutMs, header, contextValues });
      // Interceptors copy the request to replace its messages. A copy has no getters.
      const start = async () => run({ ...call, signal: call.signal } as InProcessCall);
      const complete = (response: UnaryResponse | StreamResponse) =>
        ({ ...response, message: messagesOf(call, response.message as AsyncIterable<never>) }) as StreamResponse;
      return (await call.run(start, complete)) as never;
    },
  };
}

/** Runs `routes` on a router that keeps the implementations, and wraps each of them in the interceptors once. */
function collect(
  routes: (router: ConnectRouter) => unknown,
  interceptors: readonly Interceptor[],
): Map<DescMethod, Run> {
  const methods = new Map<DescMethod, Run>();
  const add = (spec: MethodImplSpec) => {
    const wrap = (next: Run, interceptor: Interceptor) => interceptor(next as never) as unknown as Run;
    methods.set(spec.method, interceptors.reduceRight(wrap, implementation(spec)));
  };
  const router: ConnectRouter = {
    handlers: [],
    service(service, impl) {
      for (const spec of Object.values(createServiceImplSpec(service, impl).methods)) add(spec);
      return router;
    },
    rpc(method, impl) {
      add(createMethodImplSpec(method, impl));
      return router;
    },
  };
  routes(router);
  return methods;
}

/** The innermost function of a method: calls the handler. */
function implementation(spec: MethodImplSpec): Run {
  const { method, kind } = spec;
  if (kind !== "unary" && kind !== "server_streaming") {
    throw new Error(`${method} is ${kind}, which is not supported in process`);
  }
  return async ({ call, message }) => {
    const { service, stream, responseHeader: header, responseTrailer: trailer } = call;
    const respond = (result: unknown) =>
      ({ stream, method, service, message: result, header, trailer }) as UnaryResponse;
    if (kind === "server_streaming") {
      return respond(spec.impl(create(method.input, await first(message as AsyncIterable<never>)) as never, call));
    }
    return respond(create(method.output, await spec.impl(message as never, call)));
  };
}

/** The messages of a request that is one message. */
export async function* one<T>(message: T): AsyncIterable<T> {
  yield message;
}

async function first<T>(messages: AsyncIterable<T>): Promise<T> {
  for await (const message of messages) return message;
  throw new ConnectError("the request message is missing", Code.Unimplemented);
}

/**
 * The messages of a streaming call: those that the handler yields, completed to whole messages. As in Connect, leaving the loop does not end the
 * call: only its signal does. An aborted call closes the handler's generator even if the client has never read from it, so that
 * its `finally` and the interceptors that observe its end run.
 */
function messagesOf(call: InProcessCall, source: AsyncIterable<MessageInitShape<DescMethod["output"]>>) {
  const from = source[Symbol.asyncIterator]();
  let hasStarted = false;
  const pull = () => {
    hasStarted = true;
    return from.next();
  };
  const complete = (step: IteratorResult<MessageInitShape<DescMethod["output"]>>) => {
    if (!step.done) return { done: false, value: create(call.method.output, step.value) };
    call.end();
    return step;
  };
  const close = () => {
    if (!hasStarted) pull().catch(() => {}); // closing a generator that has not started runs none of its code
    (from.throw ?? from.return)?.call(from, call.signal.reason).catch(() => {});
  };
  if (call.signal.aborted) close();
  else call.signal.addEventListener("abort", close, { once: true });
  const next = () => call.run(pull, complete);
  return { [Symbol.asyncIterator]: () => ({ next }) };
}
