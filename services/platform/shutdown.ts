/** Time for closing after all requests have ended: e-mails in delivery, the last audit seal, connections. In ms. */
const CLOSE_TIMEOUT_MS = 20_000;
/** `npm start` repeats a signal that the whole process group has received already, within this many ms. */
const SIGNAL_REPEAT_MS = 1_000;
/** Exit code that shells give a process ended by SIGINT. */
const SIGINT_EXIT_CODE = 130;

/**
 * Shuts the process down in order at the first SIGTERM or SIGINT. A second Ctrl-C at a terminal ends it at once.
 * @param drain lets open requests and streams finish
 * @param close closes everything else
 */
export function shutdownOnSignal(drain: () => Promise<unknown>, close: () => Promise<unknown>): void {
  let startedAt: number | undefined;
  const shutdown = async (signal: NodeJS.Signals) => {
    if (startedAt !== undefined) {
      if (signal === "SIGINT" && performance.now() - startedAt > SIGNAL_REPEAT_MS) process.exit(SIGINT_EXIT_CODE);
      return;
    }
    startedAt = performance.now();
    if (signal === "SIGINT") process.stderr.write("\nEnding when open requests are done. Ctrl-C again ends at once.\n");
    await drain();
    setTimeout(() => process.exit(1), CLOSE_TIMEOUT_MS).unref();
    await close();
    process.exit(0);
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, shutdown);
}
