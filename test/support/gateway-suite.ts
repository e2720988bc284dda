import { afterEach } from "vitest";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { Routes, Settings, Started, TransportKind } from "./stub-services.ts";
import { start } from "./stub-services.ts";

/** The time at every gateway of these suites. */
export const NOW = new Date("2026-11-21T12:00:00Z");

/** For a suite whose tests each open a gateway of their own, which is closed after them. */
export function openGateways(transportKind: TransportKind) {
  let server: Started;
  afterEach(() => server.close());
  const open = async (routes: Routes, settings: Settings = {}) => {
    server = await start(routes, { transportKind, clock: { now: () => NOW }, ...settings });
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
    send: (...request: Parameters<Started["send"]>) => server.send(...request),
    login: () => server.send("POST", "/auth/login", { email: "a@b.cd", password: "x" }),
    get logs() {
      return server.logs;
    },
  };
}
