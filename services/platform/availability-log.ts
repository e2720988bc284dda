import type { Logger } from "pino";

/** A dependency counts as available again after this time in ms without a failure, since only some requests may fail. */
const RECOVERY_MS = 3_000;

/** Logs when a dependency becomes unavailable and when it is available again: one line each, however many requests fail. */
export type AvailabilityLog = {
  onFailure(error: Error): void;
  onSuccess(): void;
  isAvailable(): boolean;
};

/** @param consequence what an outage means, for operators */
export function createAvailabilityLog(log: Logger, dependency: string, consequence = ""): AvailabilityLog {
  let failingSince: number | undefined;
  let failedAt = 0;
  return {
    onFailure({ message: reason }) {
      failedAt = performance.now();
      if (failingSince === undefined) log.error({ reason }, `${dependency} unavailable${consequence}`);
      failingSince ??= failedAt;
    },
    onSuccess() {
      if (failingSince === undefined || performance.now() < failedAt + RECOVERY_MS) return;
      log.info({ seconds: Math.round((failedAt - failingSince) / 1_000) }, `${dependency} available again`);
      failingSince = undefined;
    },
    isAvailable: () => failingSince === undefined,
  };
}
