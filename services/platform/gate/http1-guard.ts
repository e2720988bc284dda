import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type OpenCall, type PortGuard, setOpenCall } from "./open-calls.ts";

/** Maximum number of pipelined requests in progress per connection (RFC 9112 section 9.3.2). */
const MAX_IN_PROGRESS = 16;

type ClientState = {
  /** Requests in progress. */
  requests: number;
  /** Whether the connection closes after the last response. */
  isClosing: boolean;
};

/**
 * Request listener for an HTTP/1.1 server that counts each request before `handle` gets it. A
 * connection with too many pipelined requests is closed. Node emits all requests of up to 64 KiB in
 * one turn of the event loop: `handle` gets one of each connection per turn, so that others wait
 * less.
 * @param refuse responds to a request that exceeds the caller's share; the connection closes
 * afterwards
 */
export function countRequests(
  guard: PortGuard,
  handle: RequestListener,
  refuse: (error: unknown, request: IncomingMessage, response: ServerResponse) => void,
): RequestListener {
  const clients = new WeakMap<Socket, ClientState>();
  return (request, response) => {
    const { socket } = request;
    const connection = guard.connectionOf(socket);
    const client = clients.get(socket) ?? { requests: 0, isClosing: false };
    clients.set(socket, client);
    if (!connection || socket.destroyed || client.isClosing) return;
    if (client.requests === MAX_IN_PROGRESS) {
      omitStackTraces(socket);
      return connection.cut();
    }
    client.requests++;
    let call: OpenCall | undefined;
    let isHalfClosed = false;
    const onClose = () => {
      if (isHalfClosed) call?.close(!response.writableFinished);
      isHalfClosed = true;
    };
    request.once("close", onClose);
    response.once("close", () => {
      client.requests--;
      onClose();
    });
    try {
      call = connection.open(request);
      setOpenCall(request, call);
    } catch (error) {
      client.isClosing = true;
      response.setHeader("connection", "close");
      return refuse(error, request, response);
    }
    afterTurns(client.requests - 1, () => {
      if (!socket.destroyed) handle(request, response);
    });
  };
}

/**
 * Omits stack traces while a socket closes. Node then creates an error for each of hundreds of
 * requests that it has read, and their unused stack traces would take longer than everything else.
 */
function omitStackTraces(socket: Socket): void {
  const limit = Error.stackTraceLimit;
  socket.prependOnceListener("close", () => {
    Error.stackTraceLimit = 0;
  });
  socket.once("close", () => {
    Error.stackTraceLimit = limit;
  });
}

/** Calls back after the given number of turns of the event loop. */
function afterTurns(turns: number, callback: () => void): void {
  if (turns === 0) callback();
  else setImmediate(afterTurns, turns - 1, callback);
}
