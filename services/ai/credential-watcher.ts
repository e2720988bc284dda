import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { every } from "../platform/process/background.ts";
import type { Clock } from "../platform/process/clock.ts";
import { OpenList } from "../platform/process/open-list.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import type { UserPrincipal } from "../principal.ts";
import { findValidCredentials } from "../store/credentials.ts";
import type { HotDb } from "../store/statement.ts";

/**
 * Interval in which the sessions and API keys of open streams are read, in ms. A revocation ends a
 * stream within about this time.
 */
const WATCH_INTERVAL_MS = 750;

/** A stream, and the message for its end with its session or API key. */
type Watched = { controller: AbortController; id: string; ended: string };

/**
 * Ends streams when their session or API key ends, whichever process ended it. One statement per
 * interval checks all of them.
 */
export function createCredentialWatcher(db: HotDb, clock: Clock, log: Pick<Logger, "warn">) {
  const watched = new OpenList<Watched>();
  const run = async () => {
    const checked = [...watched];
    if (checked.length === 0) return;
    const ids = checked.map(({ id }) => id);
    const valid = await findValidCredentials(db, ids, clock.now()); // while it fails, no stream ends
    for (const { controller, id, ended } of checked) {
      if (!valid.has(id)) controller.abort(new ServiceError(Reason.UNAUTHENTICATED, ended));
    }
  };
  const { close } = every(
    { name: "watch credentials", intervalMs: WATCH_INTERVAL_MS, run },
    { clock, log },
  );
  return {
    /**
     * @returns what aborts when the client disconnects, or with a ServiceError when the session or
     * key has ended
     */
    watch(principal: UserPrincipal, client: AbortSignal) {
      const controller = new AbortController();
      const stream =
        principal.kind === "session"
          ? { controller, id: principal.session.id, ended: "The session has ended." }
          : { controller, id: principal.key.id, ended: "The API key has expired or was revoked." };
      // Not AbortSignal.any, whose signals stay in memory until the next full collection.
      const leave = () => controller.abort(client.reason);
      if (client.aborted) leave();
      else client.addEventListener("abort", leave);
      watched.add(stream);
      return {
        signal: controller.signal,
        end() {
          client.removeEventListener("abort", leave);
          watched.delete(stream);
        },
      };
    },
    close,
  };
}
