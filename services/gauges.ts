import type { AppContext } from "./call.ts";
import type { HealthChecks } from "./servers/health.ts";
import { readChainState } from "./store/audit-seals.ts";
import { mailQueue } from "./store/emails.ts";

/** Adds the gauges of the services: queues, database connections and dependencies. */
export function addGauges(
  {
    metrics: { gauge },
    clock,
    store,
    passwords,
  }: Pick<AppContext, "metrics" | "clock" | "store" | "passwords">,
  checks: HealthChecks,
): void {
  const queue = () => mailQueue({ em: store.fork() }, clock.now());
  const depth = async () => (await queue()).depth;
  const lag = async () => (await queue()).lagSeconds;
  const unsealed = async () => (await readChainState({ em: store.fork() })).unsealed;
  const connections = () => {
    const { used, idle } = store.connections();
    return { used, idle };
  };
  const pending = () => store.connections().waiting;
  const dependencies = async () => {
    const states = Object.entries(checks).map(
      async ([name, check]) => [name, Number((await check()).serves)] as const,
    );
    return Object.fromEntries(await Promise.all(states));
  };
  const state = "db_client_connection_state";
  gauge("gatehouse_mail_queue_depth", "E-mails that are not delivered yet.", depth);
  gauge("gatehouse_mail_queue_lag_seconds", "How long the oldest e-mail has been due.", lag);
  gauge(
    "gatehouse_password_hashes_waiting",
    "Password hashes waiting to be computed.",
    passwords.waiting,
  );
  gauge(
    "gatehouse_audit_unsealed_events",
    "Audit events that are not part of the hash chain yet.",
    unsealed,
  );
  gauge("db_client_connection_count", "Database connections of this process.", connections, state);
  gauge(
    "db_client_connection_pending_requests",
    "Calls that wait for a database connection.",
    pending,
  );
  gauge(
    "gatehouse_dependency_up",
    "Whether a dependency works: 1 or 0.",
    dependencies,
    "dependency",
  );
}
