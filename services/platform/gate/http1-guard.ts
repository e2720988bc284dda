import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type PortGuard, setOpenCall } from "./open-calls.ts";

/** Maximum number of pipelined requests in progress per connection (RFC 9112 section 9.3.2). */
const MAX_IN_PROGRESS = 16;

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
  const inProgress = new WeakMap<Socket, number>();
  const closing = new WeakSet<Socket>();
  return (request, response) => {
    const { socket } = request;
    const connection = guard.connectionOf(socket);
    if (!connection || socket.destroyed || closing.has(socket)) return;
    const requests = (inProgress.get(socket) ?? 0) + 1;
    if (requests > MAX_IN_PROGRESS) {
      omitStackTraces(socket);
      return connection.cut();
    }
    inProgress.set(socket, requests);
    response.once("close", () => inProgress.set(socket, (inProgress.get(socket) ?? 1) - 1));
    try {
      const call = connection.open(request);
      closeWithBoth(request, response, () => call.close(!response.writableFinished));
      setOpenCall(request, call);
    } catch (error) {
      closing.add(socket);
      response.setHeader("connection", "close");
      return refuse(error, request, response);
    }
    afterTurns(requests - 1, () => {
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

/** Calls back once both the request body and the response have ended. */
function closeWithBoth(
  request: IncomingMessage,
  response: ServerResponse,
  onClose: () => void,
): void {
  let open = 2;
  const end = () => {
    open--;
    if (open === 0) onClose();
  };
  request.once("close", end);
  response.once("close", end);
}
