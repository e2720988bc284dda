import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor, type StreamResponse } from "@connectrpc/connect";
import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { type AppContext, Call, callKey } from "../call.ts";
import type { Metrics } from "../metrics.ts";
import { admittedKey } from "../platform/gate/server-hooks.ts";
import {
  AWAY_MESSAGE,
  abortError,
  connectErrorOf,
  internalError,
  ServiceError,
  toConnectError,
  unavailable,
} from "../platform/rpc/errors.ts";
import { readClient } from "../platform/rpc/metadata.ts";
import type { AvailabilityLog } from "../platform/telemetry/log.ts";
import { isDatabaseUnavailable, isStaleStatement, redactDatabaseError } from "../store/errors.ts";
import { watchDatabase } from "../store/open-store.ts";

/** The rest of the interceptor chain, and what it is called with. */
type Next = Parameters<Interceptor>[0];
type AnyRequest = Parameters<Next>[0];

/**
 * Creates the call of each request. When it has ended, maps its error, and logs, measures and
 * traces it.
 */
export function observeCalls(context: AppContext, internalSecret: string | undefined): Interceptor {
  const { log, store, tracing } = context;
  const mapError = createErrorMapper(log, watchDatabase(store, log));
  return (next) => (req) => {
    const rpc = rpcName(req.method);
    const attributes = { "rpc.system.name": "grpc", "rpc.method": rpc };
    const span = tracing?.start(rpc, "SERVER", req.header.get("traceparent"), attributes);
    if (span) req.header.set("traceparent", span.traceparent);
    const { address = "127.0.0.1" } = req.contextValues.get(admittedKey)?.open ?? {};
    const client = readClient(req.header, address, internalSecret);
    const call = new Call(context, client, req);
    req.contextValues.set(callKey, call);
    const within: Next =
      span && tracing ? (request) => tracing.within(span, () => next(request)) : next;
    return onComplete(within, req, (thrown) => {
      for (const callback of call.onComplete) callback();
      const error = thrown === undefined ? undefined : mapError(thrown, req);
      const status = report(context, req.method, call.requestId, error, call.startedAt);
      span?.end({ "rpc.response.status_code": status }, error && status);
      return error;
    });
  };
}

/** Seconds after which clients retry when the database is unavailable. */
const DATABASE_RETRY_SECONDS = 2;

/**
 * Maps the error of a call to the Connect error that the client gets. An unknown error is a bug: it
 * is logged once and masked.
 * @param onDatabaseFailure is called for each call that failed because the database is unavailable
 */
export function createErrorMapper(log: Logger, onDatabaseFailure: AvailabilityLog["onFailure"]) {
  return (error: unknown, { method, header, signal }: AnyRequest): ConnectError => {
    if (error instanceof ServiceError) return toConnectError(error);
    if (signal.aborted) return abortError(signal);
    if (isStaleStatement(error)) return databaseAway(); // the caller's next try has it prepared again
    if (isDatabaseUnavailable(error)) {
      onDatabaseFailure(error as Error);
      return databaseAway();
    }
    if (error instanceof ConnectError && error.code === Code.Unimplemented) {
      return toConnectError(
        new ServiceError(Reason.NOT_IMPLEMENTED, "This method is not implemented yet."),
      );
    }
    if (isExpected(error)) return error;
    const rpc = rpcName(method);
    log.error(
      { err: redactDatabaseError(error), rpc, requestId: header.get("x-request-id") },
      "unexpected failure",
    );
    return internalError();
  };
}

const databaseAway = () => toConnectError(unavailable(AWAY_MESSAGE, DATABASE_RETRY_SECONDS));

/** Whether an error of Connect says what has happened. */
const isExpected = (error: unknown): error is ConnectError =>
  error instanceof ConnectError && error.code !== Code.Internal && error.code !== Code.Unknown;

type Reporting = Pick<AppContext, "log"> & { metrics: Pick<Metrics, "rpcSeconds"> };

/**
 * Logs and measures calls that a port refuses before they reach the interceptors; an unexpected
 * error is also logged as such.
 */
export const reportRefused =
  (to: Reporting) => (method: DescMethod, requestId: string, error: unknown) => {
    if (!(error instanceof ServiceError))
      to.log.error({ err: error, rpc: method.name, requestId }, "unexpected failure");
    report(to, method, requestId, connectErrorOf(error));
  };

/**
 * Logs and measures one RPC: method, code, duration, request id; never a message.
 * @returns the code's gRPC name
 */
function report(
  { log, metrics }: Reporting,
  method: DescMethod,
  requestId: string,
  error?: ConnectError,
  startedAt = performance.now(),
): string {
  const rpc = rpcName(method);
  const ms = performance.now() - startedAt;
  const status = error ? statusName(error.code) : "OK";
  metrics.rpcSeconds.observe({ rpc_method: rpc, rpc_response_status_code: status }, ms / 1000);
  if (log.isLevelEnabled("debug"))
    log.debug({ rpc, code: error?.code ?? "ok", ms: Math.round(ms), requestId }, "rpc");
  return status;
}

const rpcName = (method: DescMethod) => `${method.parent.typeName}/${method.name}`;

/** The gRPC name of a code, such as RESOURCE_EXHAUSTED. */
const statusName = (code: Code) => Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();

/**
 * Called once, when the call has ended, with its error if it failed. An error that it returns
 * replaces that error.
 */
type Observer = (error?: unknown) => unknown;

/**
 * Runs the rest of the interceptor chain and reports how the call ended. An interceptor returns
 * before the handler of a stream has started, so a stream ends with its last message.
 */
export async function onComplete(
  next: Next,
  req: AnyRequest,
  observer: Observer,
): ReturnType<Next> {
  let res: Awaited<ReturnType<Next>>;
  try {
    res = await next(req);
  } catch (error) {
    throw observer(error) ?? error;
  }
  if (res.stream)
    return { ...res, message: observeMessages(res.message, observer) } as StreamResponse;
  observer();
  return res;
}

/**
 * Forwards messages and reports how they ended. A generator would need more microtasks per message.
 */
function observeMessages<T>(messages: AsyncIterable<T>, observer: Observer): AsyncIterable<T> {
  const from = messages[Symbol.asyncIterator]();
  let isOver = false;
  const end = (error?: unknown) => {
    const reported = isOver ? undefined : observer(error);
    isOver = true;
    if (error !== undefined) throw reported ?? error;
  };
  const pass = (step: IteratorResult<T>) => {
    if (step.done) end();
    return step;
  };
  const fail = (error: unknown) => end(error) as never;
  const close = async (reason?: unknown): Promise<IteratorResult<T>> => {
    await from.return?.().catch((error) => end(reason ?? error));
    end(reason);
    return { done: true, value: undefined };
  };
  const iterator = {
    next: () => from.next().then(pass, fail),
    return: () => close(),
    throw: close,
  };
  return { [Symbol.asyncIterator]: () => iterator };
}
