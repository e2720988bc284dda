import type { ConnectRouter } from "@connectrpc/connect";
import type { Logger } from "pino";
import { Health } from "../gen/health/v1/health_pb.ts";
import { readCommonPasswords } from "./accounts/password-rules.ts";
import { bootstrapFirstAdmin } from "./admin/bootstrap.ts";
import { createAiContext } from "./ai/context.ts";
import { startAuditWorker } from "./audit/worker.ts";
import type { AppContext } from "./call.ts";
import { createCipher, readSecretKeys } from "./crypto/cipher.ts";
import { createPasswords, type HashCost } from "./crypto/passwords.ts";
import { addGauges } from "./gauges.ts";
import { healthChecks, healthHandler } from "./grpc/health.ts";
import { interceptors, serve } from "./index.ts";
import { reportRefused } from "./interceptors/observe.ts";
import { startJobs } from "./jobs/cleanup.ts";
import { createMailTransport, type MailTransport } from "./mail/transport.ts";
import { startMailWorker } from "./mail/worker.ts";
import { createMetrics } from "./metrics.ts";
import type { Admission } from "./platform/admission.ts";
import type { Config } from "./platform/config.ts";
import { policyOf, services } from "./platform/policy.ts";
import type { Clock } from "./platform/process.ts";
import { openGate } from "./platform/server-hooks.ts";
import type { Tracing } from "./platform/tracing.ts";
import { createLastSeen } from "./sessions/check-session.ts";
import { openKeyRing } from "./sessions/key-ring.ts";
import { openGeoIp } from "./sessions/open-session.ts";
import { openStore } from "./store/open-store.ts";
import { checkSchema } from "./store/schema.ts";
import type { Store } from "./store/store.ts";

/** The services of one process, ready to be served. */
export type App = Awaited<ReturnType<typeof openApp>>;

/** Dependencies that a process, or a test, provides. */
export type AppOptions = {
  log: Logger;
  clock: Clock;
  /** The secret by which a gateway is recognised. */
  internalSecret: string | undefined;
  tracing?: Tracing | undefined;
  /** By default what the memory of the process allows. */
  admission?: Admission | undefined;
  /** Tests hash more cheaply. */
  hashCost?: HashCost | undefined;
};

/** Opens everything that a call needs. @throws Error for operators if the process cannot start */
export async function openApp(config: Config, options: AppOptions) {
  const { log, internalSecret } = options;
  for (const { methods } of services) methods.forEach(policyOf); // throws for a method without access
  for (const warning of config.warnings) log.warn(warning);
  const disposers: Disposers = [];
  const close = async () => {
    for (const dispose of disposers.splice(0).reverse()) await dispose();
  };
  try {
    const store = await openStore(config.database, log, options.tracing?.addStatement);
    disposers.push(() => store.close());
    if (config.migrate) await store.migrate();
    await checkSchema(store.fork(), log);
    const sender = createMailTransport(config, log);
    disposers.push(() => sender.close());
    const context = await openContext(config, store, sender, options, disposers);
    const { metrics } = context;
    const { redis, rateLimiter, ...port } = await openGate(config, context.keys, options);
    disposers.push(() => redis?.close());
    const auditWorker = startAuditWorker({ ...context, store });
    disposers.push(() => auditWorker.close());

    if (config.admin) {
      const client = { address: "127.0.0.1", agent: "start" };
      await bootstrapFirstAdmin(
        { ...context, em: store.fork(), client, requestId: "start", caller: undefined, onComplete: [] },
        config.admin,
      );
    }

    const jobs = startJobs(context, store);
    disposers.push(() => jobs.close());

    let draining = false;
    const checks = healthChecks({
      database: store.ping,
      cache: async () => void (await Promise.all([redis?.ping(), rateLimiter?.check()])),
      mail: sender.ping,
    });
    addGauges(context, store, checks);
    const health = healthHandler(checks, () => draining);
    return {
      /** Adds every service to a router. */
      routes(router: ConnectRouter): void {
        serve(router);
        router.service(Health, health);
      },
      ...port,
      /** Logs and measures a call that a port refuses: it never reaches the interceptors. */
      onRefused: reportRefused(log, metrics),
      store,
      metrics,
      interceptors: interceptors(context, store, rateLimiter, internalSecret),
      /** Health becomes NOT_SERVING, so that load balancers send no new calls. */
      drain: () => {
        draining = true;
      },
      /** Finishes the work in progress, then closes everything. */
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Functions that close resources, called in reverse order. */
type Disposers = (() => unknown)[];

async function openContext(
  config: Config,
  store: Store,
  sender: MailTransport,
  { log, clock, tracing, hashCost }: AppOptions,
  disposers: Disposers,
): Promise<AppContext> {
  const cipher = createCipher(...readSecretKeys(config));
  const longestTokenMs = Math.max(config.accessTokenMs, config.refreshTokenMs, config.mfaTokenMs);
  const keys = await openKeyRing(store, cipher, clock, longestTokenMs);
  const mailWorker = startMailWorker({ store, sender, cipher, clock, config, log });
  disposers.push(() => mailWorker.close());
  const lastSeen = createLastSeen(store, log);
  disposers.push(() => lastSeen.flush());
  const ai = createAiContext(config, store, clock, log);
  disposers.push(() => ai.close());
  const locate = await openGeoIp(config.geoipDatabase);
  const passwords = await createPasswords(hashCost);
  const commonPasswords = readCommonPasswords(config);
  const metrics = createMetrics();
  return {
    ...{ config, log, clock, cipher, keys, passwords, commonPasswords },
    ...{ lastSeen, locate, mailWorker, ai, metrics, tracing },
  };
}
