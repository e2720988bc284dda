import { afterEach } from "vitest";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { Routes, Settings, Started, Way } from "./stub-services.ts";
import { start } from "./stub-services.ts";

/** The time at every gateway of these suites. */
export const NOW = new Date("2026-11-21T12:00:00Z");

/** For a suite whose tests each open a gateway of their own, which is closed after them. */
export function openEdges(way: Way) {
  let edge: Started;
  afterEach(() => edge.close());
  const open = async (routes: Routes, settings: Settings = {}) => {
    edge = await start(routes, { way, clock: { now: () => NOW }, ...settings });
  };
  return {
    open,
    /** Opens one before services that fail to sign in and to refresh. */
    failing(error: () => unknown, settings?: Settings) {
      const fail = () => {
        throw error();
      };
      return open((router) => router.service(AuthService, { login: fail, refresh: fail }), settings);
    },
    send: (...request: Parameters<Started["send"]>) => edge.send(...request),
    login: () => edge.send("POST", "/auth/login", { email: "a@b.cd", password: "x" }),
    get logs() {
      return edge.logs;
    },
  };
}
