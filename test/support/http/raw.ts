// HTTP as bytes on a socket.

import net from "node:net";
import { text } from "node:stream/consumers";

/**
 * Collects what a socket receives.
 * @returns a function that returns the text so far
 */
export function textOf(socket: net.Socket): () => string {
  let received = "";
  socket.setEncoding("utf8").on("data", (part) => (received += part));
  return () => received;
}

/**
 * Writes bytes to the gateway.
 * @returns all bytes that it sends until the connection ends
 */
export function sendRawHttp(port: number, request: string | Uint8Array): Promise<string> {
  const socket = net.connect(port, "127.0.0.1");
  socket.write(request);
  return text(socket);
}

/** The bytes of a request with a JSON body. */
export function post(path: string, body: object, { version = "1.1", headers = "" } = {}): string {
  const json = JSON.stringify(body);
  const head = `Host: x\r\n${headers}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(json)}`;
  return `POST ${path} HTTP/${version}\r\n${head}\r\n\r\n${json}`;
}
