import type { DescMessage, DescMethod, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import type {
  ConnectRouter,
  HandlerContext,
  Interceptor,
  MethodImplSpec,
  StreamResponse,
  Transport,
  UnaryResponse,
} from "@connectrpc/connect";
import { Code, ConnectError, createMethodImplSpec, createServiceImplSpec } from "@connectrpc/connect";
import { callMessages, startCall } from "./in-process-call.ts";
import { InProcessContext, InProcessRequest } from "./in-process-context.ts";
import type { Messages } from "./messages.ts";

const always = () => true;
const never = () => false;

type Run = (request: InProcessRequest) => Promise<UnaryResponse | StreamResponse>;

/**
 * A transport to services in the same process. Messages are handed over by reference: nothing is serialized, so neither
 * side may change a message it has sent or received, and message sizes are not bounded. In every other respect (headers,
 * errors, deadlines, cancellation, masking of unknown errors) it behaves as gRPC does, and one test suite runs over both.
 * @param routes the function that fills the router of the gRPC server
 * @param interceptors the interceptors of that server, outermost first
 */
export function createInProcessTransport(
  routes: (router: ConnectRouter) => unknown,
  interceptors: readonly Interceptor[] = [],
): Transport {
  const methods = collect(routes, interceptors);
  const find = (method: DescMethod): Run => {
    const run = methods.get(method);
    if (!run) throw new ConnectError(`${method} is not served here`, Code.Unimplemented);
    return run;
  };
  return {
    async unary(method, signal, timeoutMs, header, input, contextValues) {
      const run = find(method);
      const call = startCall(signal, timeoutMs);
      const message = create(method.input, input);
      const request = new InProcessRequest(method, call, header, contextValues, { stream: false, message });
      return (await call.settle(() => run(request), always)) as UnaryResponse as never;
    },
    async stream(method, signal, timeoutMs, header, input, contextValues) {
      const run = find(method);
      const call = startCall(signal, timeoutMs);
      const message = messagesOf(method.input, input);
      const plain = new InProcessRequest(method, call, header, contextValues, { stream: true, message });
      const request = { ...plain, signal: call.signal() }; // interceptors copy it to wrap its messages
      const answer = async () => {
        const response = (await run(request)) as StreamResponse;
        return { ...response, message: callMessages(response.message, call) };
      };
      return (await call.settle(answer, never)) as never;
    },
  };
}

/** Runs `routes` on a router that keeps the implementations, and folds the interceptors around each of them once. */
function collect(
  routes: (router: ConnectRouter) => unknown,
  interceptors: readonly Interceptor[],
): Map<DescMethod, Run> {
  const methods = new Map<DescMethod, Run>();
  const add = (spec: MethodImplSpec) => {
    const fold = (next: Run, interceptor: Interceptor) => interceptor(next as never) as unknown as Run;
    methods.set(spec.method, interceptors.reduceRight(fold, implementation(spec)));
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

/** The innermost function of a method: makes the handler's context and calls the handler. */
function implementation(spec: MethodImplSpec): Run {
  const { method } = spec;
  switch (spec.kind) {
    case "unary":
      return async (request) => {
        const context = new InProcessContext(request);
        try {
          const message = create(method.output, await spec.impl(request.message as never, context));
          return { stream: false, method: spec.method, message, ...headersOf(context) };
        } catch (thrown) {
          throw withHeaders(thrown, context);
        }
      };
    case "server_streaming":
      return async (request) => {
        const context = new InProcessContext(request);
        const message = messagesOf(method.output, spec.impl(await only(request.message as never), context));
        return { stream: true, method: spec.method, message, ...headersOf(context) };
      };
    default:
      throw new Error(`${method} is ${spec.kind}, which is not served in process`);
  }
}

const headersOf = ({ service, responseHeader, responseTrailer }: HandlerContext) => ({
  service,
  header: responseHeader,
  trailer: responseTrailer,
});

/** On the wire the headers of a failed call arrive with its error. */
function withHeaders(thrown: unknown, context: HandlerContext): unknown {
  if (!(thrown instanceof ConnectError)) return thrown;
  for (const headers of [context.responseHeader, context.responseTrailer]) {
    for (const [name, value] of headers) thrown.metadata.append(name, value);
  }
  return thrown;
}

async function only<T>(messages: AsyncIterable<T>): Promise<T> {
  for await (const message of messages) return message;
  throw new ConnectError("the request message is missing", Code.Unimplemented);
}

/** Completes partial messages, as they come. */
function messagesOf<M extends DescMessage>(
  schema: M,
  source: Messages<MessageInitShape<M>>,
): Messages<MessageShape<M>> {
  const { each } = source;
  const complete = (step: IteratorResult<MessageInitShape<M>>): IteratorResult<MessageShape<M>> =>
    step.done ? step : { done: false, value: create(schema, step.value) };
  return {
    each: each && ((take) => each((message) => take(create(schema, message)))),
    [Symbol.asyncIterator]() {
      const from = source[Symbol.asyncIterator]();
      return {
        next: () => from.next().then(complete),
        return: async () => ({ done: true, value: (await from.return?.())?.value }),
      };
    },
  };
}
