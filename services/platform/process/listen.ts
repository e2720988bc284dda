import { once } from "node:events";
import { rmSync, statSync } from "node:fs";
import { connect } from "node:net";

/**
 * Opens a port.
 * @param host, port the variables with address and port
 * @throws Error for operators that names one to change
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
    if (syscall !== "listen" && syscall !== "getaddrinfo") throw cause;
    const explanations: Record<string, string> = {
      EADDRINUSE: `${port} is taken: ${message}. Stop what listens there, or change ${port}.`,
      EACCES: `${port} is not for this user: ${message}. Use a port above 1023, or a folder that it may write to.`,
    };
    const otherwise = `${host} must be an address of this machine or a name of one: ${message}.`;
    throw new Error(explanations[code ?? ""] ?? otherwise, { cause });
  }
}

/**
 * Removes the Unix socket of a process that has died, whose address would be in use for ever. Other
 * files stay.
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
