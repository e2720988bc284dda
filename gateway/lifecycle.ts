import type { FastifyInstance } from "fastify";
import type { OpenCalls } from "./transcode/inflight.ts";
import { endCalls } from "./transcode/inflight.ts";

/** The state of a gateway. */
export type Phase = "starting" | "serving" | "draining";

/** Start and shutdown of a gateway. */
export type Lifecycle = {
  phase(): Phase;
  /** Counts a request as open, until `leave` at the end of its response. */
  enter(): void;
  leave(): void;
  /** Opens the port. @returns the URL for clients, such as http://127.0.0.1:3000 */
  listen(address: { host: string; port: number }): Promise<string>;
  /** Rejects new requests, aborts open ones after the grace period, and closes the port. May be called twice. */
  drain(): Promise<void>;
};

/** Time for aborted calls to send their last response, in ms. */
const FAREWELL_MS = 1_000;

/**
 * @param calls the calls that are aborted after the grace period
 * @param graceMs grace period for open requests and streams, in ms
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
