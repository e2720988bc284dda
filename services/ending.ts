/** How long mail in hand, the last audit seal and connections have to end, in milliseconds. */
const CLOSING_MS = 20_000;

/**
 * Ends the process in order at the first SIGTERM or SIGINT. Others may follow at once: `npm start` repeats a signal that
 * a terminal or a service manager has sent to the whole group.
 * @param finish lets what clients have begun be finished
 * @param close lets go of everything
 */
export function endOnSignal(finish: () => Promise<unknown>, close: () => Promise<unknown>): void {
  let isEnding = false;
  const end = async () => {
    if (isEnding) return;
    isEnding = true;
    await finish();
    setTimeout(() => process.exit(1), CLOSING_MS).unref(); // what isn't closed by then never will be
    await close();
    process.exit(0);
  };
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, end);
}
