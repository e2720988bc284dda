import type { IncomingHttpHeaders } from "node:http";
import {
  constants,
  createSecureServer,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type Http2Session,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { tooManyConcurrent } from "../platform/gate/admission.ts";
import { type Connection, type PortGuard, setOpenCall } from "../platform/gate/open-calls.ts";
import { ServiceError } from "../platform/rpc/errors.ts";

/**
 * Maximum number of concurrent calls per connection: before a user is known; with a known user or a
 * proxy; of a gateway, which uses the connection for all its clients.
 */
const MAX_STRANGER_STREAMS = 32;
const MAX_CONCURRENT_STREAMS = 250;
const MAX_GATEWAY_STREAMS = 10_000;
/**
 * Number of calls that a connection begins in one turn of the event loop before a user is known.
 */
const STRANGER_CALLS_PER_TURN = 4;
const OPTIONS = {
  settings: { maxConcurrentStreams: MAX_STRANGER_STREAMS },
  // In MB, per connection. Node counts what disconnected clients did not read until the connection
  // ends. Above Node's default of 10 MB, it would refuse every call on the connection: all calls of
  // a gateway.
  maxSessionMemory: 1_024,
  // Stream resets allowed per connection, in a burst and per second (CVE-2023-44487).
  streamResetBurst: 1_000,
  streamResetRate: 100,
};

type Listener = (request: Http2ServerRequest, response: Http2ServerResponse) => void;

/**
 * An HTTP/2 server that closes connections without open calls after `idleMs`. Each call is counted
 * before its listener gets it. If a client exceeds its share, its connection is closed; on a
 * connection shared by many clients, only the call is.
 */
export function createHttp2Server(
  tls: SecureServerOptions | undefined,
  idleMs: number,
  guard: PortGuard,
) {
  const server = tls ? createSecureServer({ ...OPTIONS, ...tls }) : createServer(OPTIONS);
  const sockets = new Set<Socket>();
  const sessions = new Map<Http2Session, Connection>();
  const turns = createTurns();
  guard.watch(server);
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("session", (session: ServerHttp2Session) => {
    const connection = guard.connectionOf(session.socket);
    if (!connection) return session.destroy();
    let streams = 0;
    // Node does not clear its own session timer when the socket closes: the session would stay in
    // memory until the timer fires.
    const idle = setTimeout(() => streams === 0 && session.close(), idleMs);
    sessions.set(session, connection);
    if (connection.isShared()) raiseStreams(session, false);
    session.on("stream", (stream) => {
      streams++;
      stream.once("close", () => {
        streams--;
        if (!session.destroyed) idle.refresh();
      });
    });
    session.once("close", () => {
      clearTimeout(idle);
      sessions.delete(session);
    });
  });

  /** Counts a call. Undefined if its caller has exceeded its share. */
  function open(request: Http2ServerRequest) {
    const { session } = request.stream;
    const connection = session && sessions.get(session);
    if (!connection || session.destroyed) return undefined;
    try {
      if (!connection.isShared()) turns.count(session);
      return connection.open(request, () => raiseStreams(session, connection.isGateway()));
    } catch (error) {
      if (isFull(error)) request.stream.close(constants.NGHTTP2_REFUSED_STREAM);
      else if (connection.isShared()) request.stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      else connection.cut(() => endSession(session));
      return undefined;
    }
  }

  return {
    server,
    /** Serves every call that was not rejected immediately. */
    serve(listener: Listener) {
      return server.on("request", (request, response) => {
        const call = open(request);
        if (!call) return;
        const { stream } = request;
        stream.once("close", () => call.close(stream.aborted));
        setOpenCall(request, call);
        turns.begin(stream, () => listener(request, response));
      });
    },
    /** Lets every connection close after its last call. */
    drain(): void {
      for (const session of sessions.keys()) session.close();
    },
    /** Closes every socket. Destroying the sessions would report only one call to each client. */
    cut(): void {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Whether the process is at capacity, regardless of the caller: clients may retry. */
const isFull = (error: unknown) =>
  error instanceof ServiceError && error.reason === Reason.UNAVAILABLE;

/** Tells a client that it exceeds its share (RFC 9113 section 7), and disconnects it. */
function endSession(session: Http2Session): void {
  session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  session.destroy();
}

/**
 * What a connection has done in the current turn of the event loop, and what it does in the next
 * ones.
 */
type Turn = { received: number; begun: number; waiting: (() => void)[] };

/**
 * Divides the calls of each connection among turns of the event loop. Node reads up to 64 KiB of a
 * connection in a turn: hundreds of calls, which would delay every other caller by 100 ms.
 */
function createTurns() {
  const turns = new Map<Http2Session, Turn>();
  const turnOf = (session: Http2Session): Turn => {
    if (turns.size === 0) setImmediate(next);
    const turn = turns.get(session) ?? { received: 0, begun: 0, waiting: [] };
    turns.set(session, turn);
    return turn;
  };
  /** Begins the next calls of every connection. */
  const next = () => {
    for (const [session, turn] of turns) {
      const due = turn.waiting.splice(0, STRANGER_CALLS_PER_TURN);
      if (due.length === 0) turns.delete(session);
      Object.assign(turn, { received: 0, begun: due.length });
      for (const begin of due) begin();
    }
    if (turns.size > 0) setImmediate(next);
  };
  return {
    /**
     * Counts a call. No call of a turn can have ended before the next one arrives, unless the
     * client has reset it: more calls than may be concurrent are a flood (CVE-2023-44487).
     * @throws ServiceError TOO_MANY_CONCURRENT if a connection makes more calls than may be
     * concurrent
     */
    count(session: Http2Session): void {
      const turn = turnOf(session);
      turn.received++;
      if (turn.received > maxStreamsOf(session)) throw tooManyConcurrent();
    },
    /** Begins a call: at once, or in a later turn if its caller is unknown and has begun others. */
    begin(stream: ServerHttp2Stream, begin: () => void): void {
      const { session } = stream;
      const turn = session && turns.get(session);
      const isStranger = turn && maxStreamsOf(session) === MAX_STRANGER_STREAMS;
      if (!isStranger || turn.begun++ < STRANGER_CALLS_PER_TURN) begin();
      else
        turn.waiting.push(() => {
          if (!stream.destroyed) begin();
        });
    },
  };
}

/** The number of concurrent calls that connections were raised to. */
const raised = new WeakMap<Http2Session, number>();

const maxStreamsOf = (session: Http2Session) => raised.get(session) ?? MAX_STRANGER_STREAMS;

/** Raises a connection's limit of concurrent calls to that of a user or a gateway. */
function raiseStreams(session: Http2Session, isGateway: boolean): void {
  const maxConcurrentStreams = isGateway ? MAX_GATEWAY_STREAMS : MAX_CONCURRENT_STREAMS;
  if ((raised.get(session) ?? 0) >= maxConcurrentStreams || session.destroyed) return;
  raised.set(session, maxConcurrentStreams);
  session.settings({ maxConcurrentStreams });
}

/** Maximum deadline that clients may set: the maximum delay of a timer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;
/** The units of `grpc-timeout` that can exceed it, in ms. */
const UNIT_MS: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1_000 };

/** A timeout of nothing, which Connect would take for none. */
const NO_TIME = /^0+[HMSmun]?$/;

/**
 * Removes a timeout with which Connect would start no timer, or one that Node can't have.
 * @returns the error for the client
 */
export function refuseTimeout(headers: IncomingHttpHeaders): ServiceError | undefined {
  const { "grpc-timeout": grpc = "", "connect-timeout-ms": connect = "" } = headers;
  const [, amount, unit = ""] = /^(\d+)([HMS])$/.exec(String(grpc)) ?? [];
  const isOver = NO_TIME.test(String(grpc)) || NO_TIME.test(String(connect));
  const isLong =
    Number(amount) * (UNIT_MS[unit] ?? 1) > MAX_TIMEOUT_MS || Number(connect) > MAX_TIMEOUT_MS;
  if (!isOver && !isLong) return undefined;
  delete headers["grpc-timeout"];
  delete headers["connect-timeout-ms"];
  return isOver
    ? new ServiceError(Reason.REQUEST_TIMEOUT, "The deadline has passed.")
    : new ServiceError(Reason.MALFORMED_REQUEST, `The maximum timeout is ${MAX_TIMEOUT_MS} ms.`);
}
