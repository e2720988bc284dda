/**
 * Runs another peer in WORKERS processes that share its port, with `node:cluster`. PEER: its file.
 */
import cluster from "node:cluster";

if (cluster.isPrimary) {
  for (let started = 0; started < Number(process.env.WORKERS); started++) cluster.fork();
  process.once("SIGTERM", () => process.exit(0));
} else {
  await import(`./${process.env.PEER}.ts`);
}
