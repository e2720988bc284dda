// An AI provider that answers with any bytes.

import { createServer, type Socket } from "node:net";
import { listen } from "../network/sockets.ts";

/** A complete request, and the connection for its response. */
export type RawExchange = {
  socket: Socket;
  request: string;
  /** The number of earlier requests on the connection. */
  earlier: number;
};

/** The bytes of a good response to which a connection stays open. */
export const rawResponse = (body: string, type = "application/json") =>
  `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/**
 * Starts a server on the loopback interface that answers with exactly the bytes that a test writes,
 * whether or not they are HTTP.
 */
export async function startRawProvider(answer: (exchange: RawExchange) => unknown) {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}).on("close", () => sockets.delete(socket)));
    let received = "";
    let earlier = 0;
    socket.on("data", (bytes) => {
      received += bytes.toString("latin1");
      const length = lengthOfRequest(received);
      if (length === undefined || received.length < length) return;
      const request = received.slice(0, length);
      received = received.slice(length);
      requests.push(request);
      answer({ socket, request, earlier: earlier++ });
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    /** Every request, as it arrived. */
    requests,
    /** The paths of all requests. */
    paths: () => requests.map((request) => request.split(" ")[1]),
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** The length of the request that a text begins with, once its head is complete. */
function lengthOfRequest(text: string): number | undefined {
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return undefined;
  const length = /content-length: (\d+)/i.exec(text.slice(0, head))?.[1] ?? "0";
  return head + 4 + Number(length);
}
