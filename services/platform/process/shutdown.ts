import cluster from "node:cluster";
import { shuttingDown, toConnectError } from "../rpc/errors.ts";

/**
 * Time for closing once all requests have ended (e-mails being delivered, the last audit seal,
 * connections), in ms.
 */
export const CLOSE_TIMEOUT_MS = 20_000;

/**
 * Time within which `npm start` repeats a signal that the whole process group has already received,
 * in ms.
 */
const SIGNAL_REPEAT_MS = 1_000;

/** Exit code that shells report for a process ended by SIGINT. */
const SIGINT_EXIT_CODE = 130;

/**
 * Drains and then closes at the first SIGTERM or SIGINT. A second Ctrl-C at a terminal ends the
 * process immediately. A worker ignores SIGINT, which a terminal sends to all processes; its parent
 * process sends it SIGTERM.
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
      process.stderr.write(
        "\nShutting down once open requests have finished. Press Ctrl-C again to exit immediately.\n",
      );
    await drain();
    setTimeout(() => process.exit(1), CLOSE_TIMEOUT_MS).unref();
    await close();
    process.exit(0);
  };
  process.on("SIGTERM", shutdown).on("SIGINT", cluster.isWorker ? () => {} : shutdown);
}

/**
 * Time for aborted calls to send their final response before their connections are closed, in ms.
 */
const ABORT_GRACE_MS = 1_000;

/**
 * Waits until a server has closed. Open calls get `graceMs` to finish, then they are aborted.
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
