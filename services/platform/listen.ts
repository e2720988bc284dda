/**
 * Listens somewhere.
 * @param host the variable that names the address
 * @param port the variable that names the port
 * @throws Error for operators, in words that name the variable to change
 */
export async function listenOrExplain<T>(host: string, port: string, listen: () => Promise<T>): Promise<T> {
  try {
    return await listen();
  } catch (cause) {
    const { code, syscall, message } = cause as NodeJS.ErrnoException;
    if (syscall !== "listen" && syscall !== "getaddrinfo") throw cause;
    const told: Record<string, string> = {
      EADDRINUSE: `${port} is taken: ${message}. Stop what listens there, or change ${port}.`,
      EACCES: `${port} is not for this user: ${message}. Change it to one above 1023.`,
    };
    const otherwise = `${host} must be an address of this machine or a name of one: ${message}.`;
    throw new Error(told[code ?? ""] ?? otherwise, { cause });
  }
}
