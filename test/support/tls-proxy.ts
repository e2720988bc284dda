import { readFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { addressOf, listen, throughPort } from "./sockets.ts";

/** The request of a PostgreSQL client for TLS (SSLRequest), and the positive reply. */
const TLS_REQUEST = Buffer.from("0000000804d2162f", "hex");
const YES = "S";

/** A proxy before a PostgreSQL server that accepts TLS only, with a certificate for localhost and 127.0.0.1. */
export async function startEncrypting(databaseUrl: string, { cert, key }: Record<"cert" | "key", string>) {
  const { host, port } = addressOf(databaseUrl);
  const sockets = new Set<Socket>();
  const pair = { cert: readFileSync(cert), key: readFileSync(key) };
  const clients: (string | undefined)[] = [];
  const keep = (socket: Socket) => sockets.add(socket.on("error", () => {}));
  const server = createServer((client) => {
    keep(client);
    client.once("data", (request: Buffer) => {
      if (!request.equals(TLS_REQUEST)) return client.destroy();
      client.write(YES);
      const near = new TLSSocket(client, { isServer: true, requestCert: true, ...pair });
      near.once("secure", () => clients.push(near.getPeerX509Certificate()?.toString()));
      const far = connect(port, host);
      for (const socket of [near, far]) keep(socket);
      near.pipe(far).pipe(near);
    });
  });
  return {
    /** The certificate of each client. */
    clients,
    url: throughPort(databaseUrl, await listen(server)),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
