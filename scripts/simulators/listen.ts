import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

const HOST = "127.0.0.1";

/**
 * Opens a port of the loopback interface.
 * @param preferred the port if it is valid and free; otherwise the system chooses one
 * @returns the origin
 */
export async function listenNear(server: Server, preferred = 0): Promise<string> {
  const opened = await open(server, isPort(preferred) ? preferred : 0);
  if (!opened) await open(server, 0);
  return `http://${HOST}:${(server.address() as AddressInfo).port}`;
}

const isPort = (port: number) => Number.isInteger(port) && port >= 0 && port < 65_536;

/** @returns whether the port was free */
const open = (server: Server, port: number) =>
  new Promise<boolean>((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException) =>
      port > 0 && ["EADDRINUSE", "EACCES"].includes(error.code ?? "")
        ? resolve(false)
        : reject(error);
    server.once("error", onError);
    server.listen(port, HOST, () => {
      server.off("error", onError);
      resolve(true);
    });
  });
