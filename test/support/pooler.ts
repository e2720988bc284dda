import { connect, createServer, type Socket } from "node:net";
import { addressOf, listen, throughPort } from "./sockets.ts";

/** The last message of a client (Terminate), and of a server after a transaction (ReadyForQuery, idle). */
const TERMINATE = Buffer.from("5800000004", "hex");
const IDLE = Buffer.from("5a0000000549", "hex");

/**
 * A pooler of PostgreSQL connections. Connections of disconnected clients stay open with their statements and locks.
 * @param mode whether a connection belongs to one client, or to one transaction
 */
export async function startPooler(databaseUrl: string, mode: "session" | "transaction") {
  const { host, port } = addressOf(databaseUrl);
  const clients = new Set<Socket>();
  const owners = new Map<Socket, Socket | undefined>();
  const idle: Socket[] = [];
  const open = (): Socket => {
    const far = connect(port, host);
    far.on("error", () => {}).on("close", () => owners.get(far)?.destroy());
    far.on("data", (part: Buffer) => {
      const owner = owners.get(far);
      if (mode === "transaction" && part.subarray(-IDLE.length).equals(IDLE)) {
        owners.set(far, undefined);
        idle.push(far);
      }
      owner?.write(part);
    });
    return far;
  };
  const server = createServer((client) => {
    clients.add(client);
    owners.set(open(), client); // for greeting and password
    const mine = () => [...owners].find(([, owner]) => owner === client)?.[0];
    client.on("error", () => {}).on("close", () => clients.delete(client));
    client.on("data", (part: Buffer) => {
      if (part.equals(TERMINATE)) return client.end();
      const far = mine() ?? (idle.pop() as Socket);
      owners.set(far, client);
      far.write(part);
    });
  });
  return {
    url: throughPort(databaseUrl, await listen(server)),
    async close() {
      for (const socket of [...clients, ...owners.keys()]) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
