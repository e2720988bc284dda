import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** What a client says before it leaves (Terminate), and a server after a transaction (ReadyForQuery, idle). */
const TERMINATE = Buffer.from("5800000004", "hex");
const IDLE = Buffer.from("5a0000000549", "hex");

/**
 * A pooler of PostgreSQL connections: those of clients that left stay open, as their statements and locks have left them.
 * @param mode whether a client has its connection to itself, or, until its next transaction, whichever was used last
 */
export async function startPooler(target: { host: string; port: number }, mode: "session" | "transaction") {
  const clients = new Set<Socket>();
  const owners = new Map<Socket, Socket | undefined>();
  const idle: Socket[] = [];
  const open = (): Socket => {
    const far = connect(target.port, target.host);
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
    owners.set(open(), client); // its greeting and its password go there
    const mine = () => [...owners].find(([, owner]) => owner === client)?.[0];
    client.on("error", () => {}).on("close", () => clients.delete(client));
    client.on("data", (part: Buffer) => {
      if (part.equals(TERMINATE)) return client.end();
      const far = mine() ?? (idle.pop() as Socket);
      owners.set(far, client);
      far.write(part);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      for (const socket of [...clients, ...owners.keys()]) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
