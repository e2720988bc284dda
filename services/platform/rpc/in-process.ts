import { create, type DescMethod, type MessageInitShape } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createContextValues,
  createServiceImplSpec,
  type HandlerContext,
  type Interceptor,
  type MethodImplSpec,
  type StreamRequest,
  type StreamResponse,
  type Transport,
  type UnaryRequest,
  type UnaryResponse,
} from "@connectrpc/connect";

/** Runs a call, or the copy of it that an interceptor passes on. */
type Run = (request: UnaryRequest | StreamRequest) => Promise<UnaryResponse | StreamResponse>;

/**
 * A transport to services in the same process. Messages are passed by reference and never
 * serialized, so neither side may modify a message that it has sent or received, and message size
 * is not limited. The handler gets the caller's signal and no deadline. In all other respects
 * (headers, errors, cancellation) it behaves like gRPC; one test suite covers both.
 * @param routes registers the services on a router, as for the gRPC server
 * @param interceptors the interceptors of the gRPC server, outermost first
 */
export function createInProcessTransport(
  routes: (router: ConnectRouter) => unknown,
  interceptors: readonly Interceptor[] = [],
): Transport {
  const methods = collect(routes, interceptors);
  /** Starts a call. Resolves with its response, or, for a stream, once it has begun. */
  async function start(...call: Parameters<Transport["stream"]>): Promise<never> {
    const [
      method,
      signal = new AbortController().signal,
      ,
      header,
      message,
      contextValues = createContextValues(),
    ] = call;
    const run = methods.get(method);
    if (!run) throw new ConnectError(`${method} is not implemented`, Code.Unimplemented);
    const request = {
      stream: (method as DescMethod).methodKind !== "unary",
      method,
      service: method.parent,
      url: `in-process:/${method.parent.typeName}/${method.name}`,
      requestMethod: "POST",
      header: header instanceof Headers ? header : new Headers(header),
      contextValues,
      signal,
      message,
    };
    const settle = settleWithin(signal);
    const complete = (response: UnaryResponse | StreamResponse) =>
      response.stream ? { ...response, message: messagesOf(response, signal, settle) } : response;
    return (await settle(() => run(request as StreamRequest), complete)) as never;
  }
  return {
    unary: (method, signal, timeoutMs, header, input, contextValues) =>
      start(
        method as never,
        signal,
        timeoutMs,
        header,
        create(method.input, input) as never,
        contextValues,
      ),
    stream: start,
  };
}

/**
 * Runs `routes` on a router that only keeps the implementations, and wraps each of them in the
 * interceptors once.
 */
function collect(
  routes: (router: ConnectRouter) => unknown,
  interceptors: readonly Interceptor[],
): Map<DescMethod, Run> {
  const methods = new Map<DescMethod, Run>();
  const wrap = (next: Run, interceptor: Interceptor) => interceptor(next as never) as Run;
  const router = {
    service(service, impl) {
      for (const spec of Object.values(createServiceImplSpec(service, impl).methods)) {
        methods.set(spec.method, interceptors.reduceRight(wrap, implementation(spec)));
      }
      return router;
    },
  } as ConnectRouter;
  routes(router);
  return methods;
}

/** The innermost function of a method, unary or server streaming: it calls the handler. */
function implementation({ kind, impl }: MethodImplSpec): Run {
  return async (request) => {
    const { stream, method, service, message } = request;
    const [header, trailer] = [new Headers(), new Headers()];
    const context: HandlerContext = {
      ...request,
      protocolName: "in-process",
      timeoutMs: () => undefined,
      requestHeader: request.header,
      responseHeader: header,
      responseTrailer: trailer,
      values: request.contextValues,
    };
    const respond = (result: unknown) =>
      ({ stream, method, service, message: result, header, trailer }) as UnaryResponse;
    if (kind === "unary")
      return respond(create(method.output, await impl(message as never, context)));
    const { value } = await (message as AsyncIterable<never>)[Symbol.asyncIterator]().next(); // there is exactly one message
    return respond(impl(create(method.input, value) as never, context));
  };
}

/** A request stream with a single message. */
export async function* one<T>(message: T): AsyncIterable<T> {
  yield message;
}

/**
 * Runs the steps of a call one after the other. Each settles with its work, or rejects immediately
 * when the call is aborted. A single listener serves all of them.
 */
function settleWithin(signal: AbortSignal) {
  /** Rejects the step in progress, if there is one. */
  let rejectPending: ((error: ConnectError) => void) | undefined;
  const abort = () => rejectPending?.(ConnectError.from(signal.reason, Code.Canceled));
  signal.addEventListener("abort", abort);
  return <T, R>(work: () => Promise<T>, complete: (result: T) => R): Promise<R> =>
    new Promise((resolve, reject) => {
      rejectPending = reject;
      if (signal.aborted) return abort();
      const fail = (error: unknown) => reject(ConnectError.from(error, Code.Internal));
      work()
        .then((result) => {
          rejectPending = undefined; // every call is aborted at its end, and errors are expensive
          resolve(complete(result));
        })
        .catch(fail);
    });
}

/**
 * The messages of a streaming call, as the handler yields them, completed to full messages. As in
 * Connect, leaving the loop does not end the call; only its signal does. Aborting the call closes
 * the handler's generator even if the client has never read from it, so that its `finally` and the
 * interceptors observing its end run.
 */
function messagesOf(
  response: StreamResponse,
  signal: AbortSignal,
  settle: ReturnType<typeof settleWithin>,
) {
  const from: AsyncIterator<MessageInitShape<DescMethod["output"]>> =
    response.message[Symbol.asyncIterator]();
  let hasStarted = false;
  const pull = () => {
    hasStarted = true;
    return from.next();
  };
  const complete = (step: Awaited<ReturnType<typeof pull>>) =>
    step.done ? step : { done: false, value: create(response.method.output, step.value) };
  const close = () => {
    if (!hasStarted) pull().catch(() => {}); // closing a generator that has not started would run none of its code
    (from.throw ?? from.return)?.call(from, signal.reason).catch(() => {});
  };
  if (signal.aborted) close();
  else signal.addEventListener("abort", close, { once: true });
  const next = () => settle(pull, complete);
  return { [Symbol.asyncIterator]: () => ({ next }) };
}
