import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type PortGuard, setOpenCall } from "./open-calls.ts";

/** Maximum number of requests in progress on a connection (RFC 9112 section 9.3.2). */
const MAX_IN_PROGRESS = 16;

/**
 * The listener of an HTTP/1.1 server that counts each request before `handle` sees it. A
 * connection with too many requests in progress is closed.
 * @param refuse answers a request beyond the caller's share; the connection closes after it
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
    if (requests > MAX_IN_PROGRESS) return connection.cut();
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
    handle(request, response);
  };
}

/** Calls back when a response has ended, and so has the body of its request. */
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
