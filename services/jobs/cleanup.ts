import { deletedUsers, purgeUsers, unverifiedUsers } from "../accounts/erase-user.ts";
import { type AppContext, systemCall } from "../call.ts";
import { purgeMailFolder } from "../mail/transport.ts";
import { purgeExpired } from "../store/purge.ts";
import { every, type Job } from "./background.ts";
import { reEncrypt } from "./re-encrypt.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/**
 * Starts the background jobs of a process. Every process runs them; several may run the same job at
 * once.
 */
export function startJobs(context: AppContext): { close(): Promise<void> } {
  const { store } = context;
  const createCall = () => systemCall(context, store, "jobs");
  const mailSince = context.config.database.kind === "memory" ? context.clock.now() : new Date(0); // the rows of earlier runs are gone
  const jobs: Job[] = [
    {
      name: "purge deleted users",
      intervalMs: MINUTE_MS,
      run: (signal) => purgeUsers(createCall, deletedUsers, signal),
    },
    { name: "rotate signing keys", intervalMs: MINUTE_MS, run: () => context.keys.rotate() },
    {
      name: "re-encrypt secrets",
      intervalMs: HOUR_MS,
      run: (signal) => reEncrypt(context, store, signal),
    },
    {
      name: "purge expired rows",
      intervalMs: HOUR_MS,
      async run(signal) {
        await purgeExpired(store, context.clock.now(), context.config, signal);
        if (context.config.unverifiedRetentionMs > 0)
          await purgeUsers(createCall, unverifiedUsers, signal);
        await purgeMailFolder(context.config, { em: store.fork() }, mailSince);
      },
    },
  ];
  const running = jobs.map((job) => every(job, context));
  return { close: async () => void (await Promise.all(running.map((job) => job.close()))) };
}
