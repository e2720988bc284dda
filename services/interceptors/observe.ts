import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor, type StreamResponse } from "@connectrpc/connect";
import type { Logger } from "pino";
import { FailureSchema, Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { type AppContext, Call, callKey } from "../call.ts";
import type { Metrics } from "../metrics.ts";
import { type LoggedCaller, loggedCaller } from "../platform/gate/authenticate.ts";
import { admittedKey } from "../platform/gate/server-hooks.ts";
import {
  AWAY_MESSAGE,
  abortError,
  connectErrorOf,
  internalError,
  reasonName,
  ServiceError,
  toConnectError,
  unavailable,
} from "../platform/rpc/errors.ts";
import { isGatewaySecret, readClient, SECRET } from "../platform/rpc/metadata.ts";
import { type AvailabilityLog, createLineLimit } from "../platform/telemetry/log.ts";
import { isDatabaseUnavailable, isStaleStatement, redactDatabaseError } from "../store/errors.ts";
import { watchDatabase } from "../store/open-store.ts";

/** The rest of the interceptor chain, and its input. */
type Next = Parameters<Interceptor>[0];
type AnyRequest = Parameters<Next>[0];

/**
 * Creates the call of each request. When the call has ended, maps its error and logs, measures and
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
    const { open, credential } = req.contextValues.get(admittedKey) ?? {};
    const { address = "127.0.0.1" } = open ?? {};
    const client = readClient(req.header, address, internalSecret);
    const call = new Call(context, client, req);
    req.contextValues.set(callKey, call);
    const within: Next =
      span && tracing ? (request) => tracing.within(span, () => next(request)) : next;
    return onComplete(within, req, (thrown) => {
      for (const callback of call.onComplete) callback();
      const error = thrown === undefined ? undefined : mapError(thrown, req);
      const status = report(context, {
        method: req.method,
        requestId: call.requestId,
        error,
        startedAt: call.startedAt,
        direct: isGatewaySecret(req.header.get(SECRET), internalSecret)
          ? undefined
          : { address: client.address, ...loggedCaller(credential) },
      });
      span?.end({ "rpc.response.status_code": status }, error && status);
      return error;
    });
  };
}

/** Seconds after which clients should retry if the database is unavailable. */
const DATABASE_RETRY_SECONDS = 2;

/**
 * Maps the error of a call to the Connect error for the client. An unknown error is a bug: it is
 * logged once and masked.
 * @param onDatabaseFailure called for each call that failed because the database is unavailable
 */
export function createErrorMapper(log: Logger, onDatabaseFailure: AvailabilityLog["onFailure"]) {
  return (error: unknown, { method, header, signal }: AnyRequest): ConnectError => {
    if (error instanceof ServiceError) return toConnectError(error);
    if (signal.aborted) return abortError(signal);
    if (isStaleStatement(error)) return databaseAway(); // the next attempt prepares it again
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

/** Whether a Connect error describes what happened. */
const isExpected = (error: unknown): error is ConnectError =>
  error instanceof ConnectError && error.code !== Code.Internal && error.code !== Code.Unknown;

type Reporting = Pick<AppContext, "log"> & { metrics: Pick<Metrics, "rpcSeconds"> };

/** The client of a call that was not forwarded by a gateway, which would log it itself. */
type DirectClient = { address: string } & LoggedCaller;
/** A call that has ended. */
type Ended = {
  method: DescMethod;
  requestId: string;
  error?: ConnectError | undefined;
  startedAt?: number;
  direct?: DirectClient | undefined;
};

/**
 * Logs and measures calls that a port rejects before they reach the interceptors. Unexpected errors
 * are logged as errors, too. The lines about direct calls are limited; the rest are logged as a
 * count.
 */
export function reportRefused(to: Reporting) {
  const mayLogRefusal = createLineLimit(to.log);
  return (method: DescMethod, requestId: string, error: unknown, direct?: DirectClient) => {
    if (!(error instanceof ServiceError))
      to.log.error({ err: error, rpc: method.name, requestId }, "unexpected failure");
    const client = direct && mayLogRefusal() ? direct : undefined;
    report(to, { method, requestId, error: connectErrorOf(error), direct: client });
  };
}

/**
 * Logs and measures one RPC: method, code, duration, request id; never its messages. A failed
 * direct call is always logged, including its client.
 * @returns the code's gRPC name
 */
function report({ log, metrics }: Reporting, ended: Ended): string {
  const { method, requestId, error, startedAt = performance.now(), direct } = ended;
  const rpc = rpcName(method);
  const ms = performance.now() - startedAt;
  const status = error ? statusName(error.code) : "OK";
  metrics.rpcSeconds.observe({ rpc_method: rpc, rpc_response_status_code: status }, ms / 1000);
  const level = error && direct ? "info" : "debug";
  if (log.isLevelEnabled(level))
    log[level]({ rpc, code: codeOf(error), ms: Math.round(ms), requestId, ...direct }, "rpc");
  return status;
}

/**
 * The code of an error as in REST bodies, or the gRPC code if the error has none of our reasons.
 */
function codeOf(error: ConnectError | undefined): string {
  if (!error) return "OK";
  const { reason = Reason.UNSPECIFIED } = error.findDetails(FailureSchema)[0] ?? {};
  return reason === Reason.UNSPECIFIED ? statusName(error.code) : reasonName(reason);
}

const rpcName = (method: DescMethod) => `${method.parent.typeName}/${method.name}`;

/** The gRPC name of a code, such as RESOURCE_EXHAUSTED. */
const statusName = (code: Code) => Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();

/**
 * Called once when the call has ended, with the error if it failed. If it returns an error, that
 * one replaces the original.
 */
type Observer = (error?: unknown) => unknown;

/**
 * Runs the rest of the interceptor chain and reports how the call ended. For a stream, an
 * interceptor returns before the handler has started, so its call ends with the last message.
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
 * Forwards messages and reports how they ended. A generator would take more microtasks per message.
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
