import type { AppContext } from "./call.ts";
import type { HealthChecks } from "./servers/health.ts";
import { readChainState } from "./store/audit-seals.ts";
import { mailQueue } from "./store/emails.ts";
import { deploymentUse } from "./store/managed-budgets.ts";
import { webhookQueue } from "./store/webhook-deliveries.ts";

/** Adds the gauges of the services: queues, database connections and dependencies. */
export function addGauges(
  {
    metrics: { gauge },
    clock,
    store,
    passwords,
    ai,
  }: Pick<AppContext, "metrics" | "clock" | "store" | "passwords" | "ai">,
  checks: HealthChecks,
): void {
  const queue = () => mailQueue({ em: store.fork() }, clock.now());
  const depth = async () => (await queue()).depth;
  const lag = async () => (await queue()).lagSeconds;
  const webhooks = () => webhookQueue({ em: store.fork() }, clock.now());
  const deliveries = async () => (await webhooks()).depth;
  const oldestDelivery = async () => (await webhooks()).oldestSeconds;
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
  const budgetUse = async () => {
    const counters = await deploymentUse({ em: store.fork() }, ai.periodsOf(clock.now()).starts);
    return Object.fromEntries(counters.map(({ name, ratio }) => [name, ratio]));
  };
  const breakers = () =>
    Object.fromEntries(
      [...ai.providers.states()].map(([id, { breaker }]) => [id, Number(breaker !== "closed")]),
    );
  const state = "db_client_connection_state";
  const ofDatabase = { aggregator: "max" } as const; // every worker sees the same rows
  gauge("gatehouse_mail_queue_depth", "Number of e-mails not yet delivered.", depth, ofDatabase);
  gauge(
    "gatehouse_mail_queue_lag_seconds",
    "Time since the oldest undelivered e-mail was due, in seconds.",
    lag,
    ofDatabase,
  );
  gauge(
    "gatehouse_webhook_queue_depth",
    "Number of webhook deliveries that wait for an attempt.",
    deliveries,
    ofDatabase,
  );
  gauge(
    "gatehouse_webhook_queue_oldest_seconds",
    "Time for which the oldest webhook delivery has waited, in seconds.",
    oldestDelivery,
    ofDatabase,
  );
  gauge(
    "gatehouse_password_hashes_waiting",
    "Number of password hashes waiting to be computed.",
    passwords.waiting,
  );
  gauge(
    "gatehouse_audit_unsealed_events",
    "Number of audit events not yet part of the hash chain.",
    unsealed,
    ofDatabase,
  );
  gauge(
    "db_client_connection_count",
    "Number of database connections of this process.",
    connections,
    { label: state },
  );
  gauge(
    "db_client_connection_pending_requests",
    "Number of calls waiting for a database connection.",
    pending,
  );
  gauge(
    "gatehouse_budget_used_ratio",
    "Used share of each budget of the deployment in the current period, such as cost_month.",
    budgetUse,
    { ...ofDatabase, label: "budget" },
  );
  gauge("gatehouse_dependency_up", "Whether a dependency works (1) or not (0).", dependencies, {
    label: "dependency",
    aggregator: "min",
  });
  gauge(
    "gatehouse_ai_breaker_open",
    "Whether calls of aliases avoid an AI provider (1) or not (0).",
    breakers,
    { label: "provider", aggregator: "max" }, // the worker with the worst view
  );
}
