import { deletedUsers, purgeUsers, unverifiedUsers } from "../accounts/erase-user.ts";
import { type AppContext, systemCall } from "../call.ts";
import { purgeMailFolder } from "../mail/transport.ts";
import type { AgreedTime } from "../platform/process/agreed-time.ts";
import { every, type Job } from "../platform/process/background.ts";
import { purgeExpired } from "../store/purge.ts";
import { forgetPreviousSecrets } from "../store/webhooks.ts";
import { closeDays } from "./close-days.ts";
import { reEncrypt } from "./re-encrypt.ts";
import { sumUpEarlier } from "./sum-up-earlier.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** How often the ids of the signing keys are read, in ms, to stop accepting withdrawn keys. */
const WATCH_KEYS_INTERVAL_MS = 500;
/** How often the clocks are compared in addition to the runs of jobs, in ms. */
const COMPARE_INTERVAL_MS = 5_000;

/**
 * Starts the background jobs of a process. Every process runs them, and several may run the same
 * job concurrently. Jobs that delete by time skip a run while the clocks of process and database
 * differ, and run as soon as the clocks agree again.
 */
export function startJobs(context: AppContext): { close(): Promise<void> } {
  const { store, agreedTime } = context;
  const createCall = () => systemCall(context, store, "jobs");
  const mailSince = context.config.database.kind === "memory" ? context.clock.now() : new Date(0); // the rows of earlier runs no longer exist
  const jobs: TimedJob[] = [
    {
      name: "purge deleted users",
      intervalMs: MINUTE_MS,
      run: (now, signal) => purgeUsers(createCall, deletedUsers(now), signal),
    },
    {
      name: "rotate signing keys",
      intervalMs: MINUTE_MS,
      run: (now) => context.keys.rotate(now),
    },
    {
      name: "settle lost AI calls",
      intervalMs: MINUTE_MS,
      run: (now, signal) => context.ai.settleLost(now, signal),
    },
    {
      name: "close days of AI usage",
      intervalMs: MINUTE_MS,
      run: (now, signal) => closeDays(store, now, context.config, signal),
    },
    {
      name: "purge expired rows",
      intervalMs: HOUR_MS,
      async run(now, signal) {
        await purgeExpired(store, now, context.config, signal);
        await forgetPreviousSecrets({ em: store.fork() }, now);
        if (context.config.unverifiedRetentionMs > 0)
          await purgeUsers(createCall, unverifiedUsers(now, context.config), signal);
        await purgeMailFolder(context.config, { em: store.fork() }, mailSince);
      },
    },
  ];
  const timed = jobs.map((job) => every({ ...job, run: atAgreedTime(agreedTime, job) }, context));
  const others: Job[] = [
    {
      name: "re-encrypt secrets",
      intervalMs: HOUR_MS,
      run: (signal) => reEncrypt(context, store, signal),
    },
    {
      name: "sum up earlier rows",
      intervalMs: MINUTE_MS,
      run: (signal) => sumUpEarlier(store, context.clock.now(), signal),
    },
    {
      name: "watch signing keys",
      intervalMs: WATCH_KEYS_INTERVAL_MS,
      run: () => context.keys.watch(),
    },
    {
      name: "compare clocks",
      intervalMs: COMPARE_INTERVAL_MS,
      async run() {
        const agreed = agreedTime.agrees();
        const { agrees } = await agreedTime.compare();
        if (agrees && !agreed) for (const job of timed) job.wake();
      },
    },
  ];
  const running = [...timed, ...others.map((job) => every(job, context))];
  return { close: async () => void (await Promise.all(running.map((job) => job.close()))) };
}

/** A job that deletes, or changes permanently, by time. */
type TimedJob = Omit<Job, "run"> & { run(now: Date, signal: AbortSignal): Promise<unknown> };

/** Runs a job with the agreed time, or skips the run if there is none. */
const atAgreedTime = (time: AgreedTime, job: TimedJob) => async (signal: AbortSignal) => {
  const now = await time.read();
  if (now) await job.run(now, signal);
};
