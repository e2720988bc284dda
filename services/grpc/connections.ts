import type { Http2SecureServer, Http2Server, ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";

/**
 * Bounds the connections of a server, each of which costs memory before it asks anything. Whoever comes takes the place
 * of the one that has been without a call the longest.
 */
export function boundConnections(server: Http2Server | Http2SecureServer, most: number): void {
  const idle = new Set<ServerHttp2Session>();
  server.on("session", (session: ServerHttp2Session) => {
    let calls = 0;
    idle.add(session);
    session.on("stream", (stream: ServerHttp2Stream) => {
      calls++;
      idle.delete(session);
      stream.once("close", () => {
        calls--;
        if (calls === 0 && !session.closed) idle.add(session);
      });
    });
    session.once("close", () => idle.delete(session));
  });
  let open = 0;
  server.on("connection", (socket: Socket) => {
    open++;
    socket.once("close", () => open--);
    if (open <= most) return;
    const [longest] = idle;
    if (!longest) return void socket.destroy();
    idle.delete(longest);
    longest.close(); // tells a client that it is to ask over another one
  });
}
