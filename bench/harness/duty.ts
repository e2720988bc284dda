/**
 * Lets processes run in turns, each for its part of a period, until it is ended itself: so many
 * parts of one core each. Arguments: the number of parts, and the process ids. A separate program,
 * since the one that creates the load is too busy to keep time.
 */
const PERIOD_MS = 20;
const [parts = 1, ...pids] = process.argv.slice(2).map(Number);

/** The process of each part; undefined where none runs. */
let turn = 0;
const signal = (pid: number | undefined, name: NodeJS.Signals) => pid && process.kill(pid, name);
const next = () => {
  signal(pids[turn], "SIGSTOP");
  turn = (turn + 1) % parts;
  signal(pids[turn], "SIGCONT");
};
for (const pid of pids) signal(pid, "SIGSTOP");
setInterval(next, PERIOD_MS / parts);
process.once("SIGTERM", () => {
  for (const pid of pids) signal(pid, "SIGCONT");
  process.exit(0);
});
process.stdout.write("running\n");
