import type { AppContext } from "./call.ts";
import type { HealthChecks } from "./grpc/health.ts";
import { readChainState } from "./store/audit-seals.ts";
import { mailQueue } from "./store/emails.ts";
import type { Store } from "./store/store.ts";

/** Adds the gauges of the services: queues, database connections and dependencies. */
export function addGauges(
  { metrics: { gauge }, clock, passwords }: Pick<AppContext, "metrics" | "clock" | "passwords">,
  store: Store,
  checks: HealthChecks,
): void {
  const queue = () => mailQueue({ em: store.fork() }, clock.now());
  gauge("gatehouse_mail_queue_depth", "E-mails that are not delivered yet.", async () => (await queue()).depth);
  gauge(
    "gatehouse_mail_queue_lag_seconds",
    "How long the oldest e-mail has been due.",
    async () => (await queue()).lagSeconds,
  );
  gauge("gatehouse_password_hashes_waiting", "Password hashes waiting to be computed.", passwords.waiting);
  gauge(
    "gatehouse_audit_unsealed_events",
    "Audit events that are not part of the hash chain yet.",
    async () => (await readChainState({ em: store.fork() })).unsealed,
  );
  gauge(
    "db_client_connection_count",
    "Database connections of this process.",
    () => {
      const { used, idle } = store.connections();
      return { used, idle };
    },
    "db_client_connection_state",
  );
  gauge(
    "db_client_connection_pending_requests",
    "Calls that wait for a database connection.",
    () => store.connections().waiting,
  );
  gauge(
    "gatehouse_dependency_up",
    "Whether a dependency works: 1 or 0.",
    async () => {
      const states = Object.entries(checks).map(
        async ([name, check]) => [name, (await check()).serves ? 1 : 0] as const,
      );
      return Object.fromEntries(await Promise.all(states));
    },
    "dependency",
  );
}
