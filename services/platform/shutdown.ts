/** How long closing may take (mail in hand, the last audit seal, connections), in ms. */
const CLOSING_MS = 20_000;
/** `npm start` repeats a signal that a terminal or a service manager has sent to the whole group, within this many ms. */
const REPEATED_MS = 1_000;
/** Exit code that shells give a process ended by SIGINT. */
const INTERRUPTED = 130;

/**
 * Shuts the process down in order at the first SIGTERM or SIGINT; a second Ctrl-C at a terminal ends it at once.
 * @param finish lets open requests and streams finish
 * @param close closes everything else
 */
export function shutdownOnSignal(finish: () => Promise<unknown>, close: () => Promise<unknown>): void {
  let endingSince: number | undefined;
  const end = async (signal: NodeJS.Signals) => {
    if (endingSince !== undefined) {
      if (signal === "SIGINT" && performance.now() - endingSince > REPEATED_MS) process.exit(INTERRUPTED);
      return;
    }
    endingSince = performance.now();
    if (signal === "SIGINT") process.stderr.write("\nEnding when open requests are done. Ctrl-C again ends at once.\n");
    await finish();
    setTimeout(() => process.exit(1), CLOSING_MS).unref(); // what isn't closed by then never will be
    await close();
    process.exit(0);
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, end);
}
