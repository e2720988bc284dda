import type { FastifyInstance } from "fastify";
import type { OpenCalls } from "./transcode/inflight.ts";
import { endCalls } from "./transcode/inflight.ts";

/** Where a gateway stands between start and end. */
export type Phase = "starting" | "serving" | "draining";

/** The life of a gateway. */
export type Lifecycle = {
  phase(): Phase;
  /** Counts a request as open, from its arrival to the end of its answer. */
  enter(): void;
  leave(): void;
  /** Opens the port; answers the address that clients can use, such as http://127.0.0.1:3000. */
  listen(address: { host: string; port: number }): Promise<string>;
  /** Refuses new requests, gives the open ones their grace, ends them, and closes the port. Safe to call twice. */
  drain(): Promise<void>;
};

/** What ended calls have to tell their clients that they ended, in milliseconds. */
const FAREWELL_MS = 1_000;

/**
 * @param calls the calls that are ended when the grace is over
 * @param graceMs how long open requests and streams may go on, in milliseconds
 */
export function createLifecycle(app: FastifyInstance, calls: OpenCalls, graceMs: number): Lifecycle {
  let phase: Phase = "starting";
  let drained: Promise<void> | undefined;
  let open = 0;
  let onIdle = () => {};
  const idleWithin = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      if (open === 0) onIdle();
    });
  const drain = async () => {
    phase = "draining";
    await idleWithin(graceMs);
    endCalls(calls);
    await idleWithin(FAREWELL_MS);
    await app.close();
  };
  return {
    phase: () => phase,
    enter() {
      open += 1;
    },
    leave() {
      open -= 1;
      if (open === 0) onIdle();
    },
    async listen(address) {
      const url = await app.listen(address);
      phase = "serving";
      return url;
    },
    drain() {
      drained ??= drain();
      return drained;
    },
  };
}
