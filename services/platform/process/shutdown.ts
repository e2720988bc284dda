import { shuttingDown, toConnectError } from "../rpc/errors.ts";

/**
 * Time for closing after all requests have ended: e-mails in delivery, the last audit seal,
 * connections. In ms.
 */
const CLOSE_TIMEOUT_MS = 20_000;

/**
 * `npm start` repeats a signal that the whole process group has received already, within this many
 * ms.
 */
const SIGNAL_REPEAT_MS = 1_000;

/** Exit code that shells give a process ended by SIGINT. */
const SIGINT_EXIT_CODE = 130;

/**
 * Drains, then closes, at the first SIGTERM or SIGINT. A second Ctrl-C at a terminal ends the
 * process at once.
 */
export function shutdownOnSignal(
  drain: () => Promise<unknown>,
  close: () => Promise<unknown>,
): void {
  let startedAt: number | undefined;
  const shutdown = async (signal: NodeJS.Signals) => {
    if (startedAt !== undefined) {
      if (signal === "SIGINT" && performance.now() - startedAt > SIGNAL_REPEAT_MS)
        process.exit(SIGINT_EXIT_CODE);
      return;
    }
    startedAt = performance.now();
    if (signal === "SIGINT")
      process.stderr.write("\nEnding when open requests are done. Ctrl-C again ends at once.\n");
    await drain();
    setTimeout(() => process.exit(1), CLOSE_TIMEOUT_MS).unref();
    await close();
    process.exit(0);
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, shutdown);
}

/**
 * Time for aborted calls to send their last response before their connections are closed, in ms.
 */
const ABORT_GRACE_MS = 1_000;

/**
 * Waits until a server has closed. Open calls have `graceMs` to end, then they are aborted.
 * @param cut closes all connections
 */
export async function closeWithin(
  closed: Promise<unknown>,
  graceMs: number,
  calls: Iterable<AbortController>,
  cut: () => void,
): Promise<void> {
  const abort = () => {
    for (const call of calls) call.abort(toConnectError(shuttingDown()));
  };
  const timers = [setTimeout(abort, graceMs), setTimeout(cut, graceMs + ABORT_GRACE_MS)];
  await closed;
  for (const timer of timers) clearTimeout(timer);
}
