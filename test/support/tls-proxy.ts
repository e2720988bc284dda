import { readFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { TLSSocket } from "node:tls";

/** How a client of PostgreSQL asks for TLS (SSLRequest), and what it is answered. */
const TLS_ASKED = Buffer.from("0000000804d2162f", "hex");
const YES = "S";

/** Stands before a PostgreSQL server and takes TLS alone, by a certificate for localhost and 127.0.0.1; notes its clients'. */
export async function startEncrypting(
  target: { host: string; port: number },
  { cert, key }: Record<"cert" | "key", string>,
) {
  const sockets = new Set<Socket>();
  const pair = { cert: readFileSync(cert), key: readFileSync(key) };
  const clients: (string | undefined)[] = [];
  const keep = (socket: Socket) => sockets.add(socket.on("error", () => {}));
  const server = createServer((client) => {
    keep(client);
    client.once("data", (asked: Buffer) => {
      if (!asked.equals(TLS_ASKED)) return client.destroy();
      client.write(YES);
      const near = new TLSSocket(client, { isServer: true, requestCert: true, ...pair });
      near.once("secure", () => clients.push(near.getPeerX509Certificate()?.toString()));
      const far = connect(target.port, target.host);
      for (const socket of [near, far]) keep(socket);
      near.pipe(far).pipe(near);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    /** What each client has shown. */
    clients,
    port: (server.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
