import { once } from "node:events";
import { rmSync, statSync } from "node:fs";
import { connect } from "node:net";

/**
 * Opens a port or socket.
 * @param host, port names of the variables for its address and port
 * @throws Error for operators, naming the variable to change
 */
export async function listenOrExplain<T>(
  host: string,
  port: string,
  listen: () => Promise<T>,
): Promise<T> {
  try {
    return await listen();
  } catch (cause) {
    const { code, syscall, message } = cause as NodeJS.ErrnoException;
    // A worker's port is opened by the process that started it, which reports "bind".
    if (!["listen", "bind", "getaddrinfo"].includes(syscall ?? "")) throw cause;
    const explanations: Record<string, string> = {
      EADDRINUSE: `${port} is already in use: ${message}. Stop the process that listens there, or change ${port}.`,
      EACCES: `${port} is not permitted for this user: ${message}. Use a port above 1023, or a directory that the user can write to.`,
    };
    const otherwise = `${host} must be an address of this machine, or a host name for one: ${message}.`;
    throw new Error(explanations[code ?? ""] ?? otherwise, { cause });
  }
}

/**
 * Removes the Unix socket left behind by a process that has ended, which would block the path
 * forever. Other files are kept.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  if (!statSync(path, { throwIfNoEntry: false })?.isSocket()) return;
  const probe = connect(path);
  const refused = await once(probe, "connect").catch(
    (error: NodeJS.ErrnoException) => error.code === "ECONNREFUSED",
  );
  probe.destroy();
  if (refused === true) rmSync(path, { force: true });
}
