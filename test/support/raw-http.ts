import net from "node:net";

/** Collects what a socket receives. @returns a function that returns the text so far */
export function textOf(socket: net.Socket): () => string {
  let text = "";
  socket.setEncoding("utf8").on("data", (part) => {
    text += part;
  });
  return () => text;
}

/** Writes bytes to the gateway. @returns all bytes that it sends until the connection ends */
export function sendRawHttp(port: number, request: string | Uint8Array): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write(request));
    const text = textOf(socket);
    socket.on("close", () => resolve(text())).on("error", reject);
  });
}

/** The bytes of a request with a JSON body. */
export function post(path: string, body: object, { version = "1.1", headers = "" } = {}): string {
  const text = JSON.stringify(body);
  const head = `Host: x\r\n${headers}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}`;
  return `POST ${path} HTTP/${version}\r\n${head}\r\n\r\n${text}`;
}
