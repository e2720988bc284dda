import { setTimeout } from "node:timers/promises";
import { Counter, Gauge, Histogram, Registry } from "prom-client";

/** Metrics of one process. Labels are methods, models and outcomes; never users or content. */
export type Metrics = ReturnType<typeof createMetrics>;

/** Timeout for computing a gauge during a scrape, in ms. */
const GAUGE_TIMEOUT_MS = 2_000;
/** Bucket bounds in seconds, as recommended by the semantic conventions for RPC and HTTP. */
const CALL_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
/**
 * Bucket bounds in seconds and in tokens, as recommended by the semantic conventions for generative
 * AI.
 */
const OPERATION_SECONDS = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);
const OVERHEAD_SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1,
];

/** Events that are counted from 0: a series that begins with its first event has no rate of it. */
const WATCHED_EVENTS = ["auth.register", "auth.login", "auth.login_failed", "auth.locked"];
/** How an attempt to deliver an e-mail ended. A deferred one is tried again. */
const EMAIL_OUTCOMES = ["sent", "deferred", "failed"] as const;

/**
 * How an attempt to deliver an event ended, by what the delivery is then. A deferred one is tried
 * again.
 */
const DELIVERY_OUTCOMES = { delivered: "delivered", queued: "deferred", failed: "failed" } as const;

/**
 * Creates the metrics of one app, in their own registry. Names follow the OpenTelemetry semantic
 * conventions (RPC, and GenAI as of 2026), spelled as in Prometheus.
 */
export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  const histogram = <T extends string>(
    name: string,
    help: string,
    labelNames: readonly T[],
    buckets: number[],
  ) => new Histogram({ name, help, labelNames, buckets, registers });
  const counter = <T extends string>(name: string, help: string, labelNames: readonly T[]) =>
    new Counter({ name, help, labelNames, registers });
  const auditEvents = counter(
    "gatehouse_audit_events_total",
    "Audit events, such as sign-ins, by name. Each is counted by the process that seals it.",
    ["event"],
  );
  for (const event of WATCHED_EVENTS) auditEvents.inc({ event }, 0);
  const emails = counter(
    "gatehouse_emails_total",
    "Attempts of this process to deliver an e-mail, by outcome.",
    ["outcome"],
  );
  for (const outcome of EMAIL_OUTCOMES) emails.inc({ outcome }, 0);
  const deliveries = counter(
    "gatehouse_webhook_deliveries_total",
    "Attempts of this process to deliver an event to a webhook, by outcome.",
    ["outcome"],
  );
  for (const outcome of Object.values(DELIVERY_OUTCOMES)) deliveries.inc({ outcome }, 0);
  const operation = [
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
  ] as const;
  return {
    registry,
    countEvent: (event: string) => auditEvents.inc({ event }),
    countEmail: (outcome: (typeof EMAIL_OUTCOMES)[number]) => emails.inc({ outcome }),
    countDelivery: (status: keyof typeof DELIVERY_OUTCOMES) =>
      deliveries.inc({ outcome: DELIVERY_OUTCOMES[status] }),
    rpcSeconds: histogram(
      "rpc_server_call_duration_seconds",
      "Duration of RPCs; for streams, until the last message.",
      ["rpc_method", "rpc_response_status_code"],
      CALL_SECONDS,
    ),
    operationSeconds: histogram(
      "gen_ai_client_operation_duration_seconds",
      "Duration of calls to AI providers, including retries.",
      [...operation, "error_type"],
      OPERATION_SECONDS,
    ),
    firstChunkSeconds: histogram(
      "gen_ai_client_operation_time_to_first_chunk_seconds",
      "Time until the first text of a streamed reply.",
      operation,
      OPERATION_SECONDS,
    ),
    tokens: histogram(
      "gen_ai_client_token_usage",
      "Number of input and output tokens, as reported by providers.",
      [...operation, "gen_ai_token_type"],
      TOKENS,
    ),
    cost: new Counter({
      name: "gatehouse_ai_cost_total",
      help: "Cost of calls to AI providers, in the currency of the catalogue. Exact costs are in the usage.",
      labelNames: ["gen_ai_provider_name", "gen_ai_request_model"] as const,
      registers,
    }),
    overheadSeconds: histogram(
      "gatehouse_ai_overhead_seconds",
      "Time that an AI call spends in this process: before the request is sent, and while decoding the reply.",
      ["phase"],
      OVERHEAD_SECONDS,
    ),
    budgetReserveSeconds: histogram(
      "gatehouse_budget_reserve_seconds",
      "Time to reserve the budgets of an AI call, or to refuse it.",
      [],
      OVERHEAD_SECONDS,
    ),
    budgetRefusals: counter(
      "gatehouse_budget_refusals_total",
      "Number of AI calls that a budget has refused, by the scope of the budget.",
      ["scope"],
    ),
    budgetOvershoot: counter(
      "gatehouse_budget_overshoot_total",
      "Number of AI calls that used more than their budget reservation.",
      [],
    ),
    attempts: counter(
      "gatehouse_ai_attempts_total",
      "Number of requests to AI providers, by outcome.",
      ["provider", "outcome"],
    ),
    /**
     * Adds a gauge that is computed on each scrape. It has no value if computing it fails or takes
     * too long.
     * @param compute returns the value, or the values by value of `label`
     * @param options.label the label of the values
     * @param options.aggregator how the values of workers become one
     */
    gauge(
      name: string,
      help: string,
      compute: () => GaugeValues | Promise<GaugeValues>,
      { label = "", aggregator = "sum" }: GaugeOptions = {},
    ): void {
      new Gauge({
        name,
        help,
        labelNames: label ? [label] : [],
        registers,
        aggregator,
        async collect() {
          const computed = Promise.resolve(compute()).catch(() => undefined);
          const values = await Promise.race([
            computed,
            setTimeout(GAUGE_TIMEOUT_MS, undefined, { ref: false }),
          ]);
          this.reset();
          if (typeof values !== "object") return this.set(values ?? Number.NaN);
          for (const [key, value] of Object.entries(values)) this.set({ [label]: key }, value);
        },
      });
    },
  };
}

/** The value of a gauge, or its values by label value. */
type GaugeValues = number | Record<string, number>;
type GaugeOptions = { label?: string; aggregator?: "sum" | "min" | "max" };
