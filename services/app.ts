import type { ConnectRouter } from "@connectrpc/connect";
import type { Logger } from "pino";
import { Health } from "../gen/health/v1/health_pb.ts";
import { readCommonPasswords } from "./accounts/password-rules.ts";
import { announceBudgets } from "./ai/budgets/announce.ts";
import { refuseEarly } from "./ai/budgets/refuse-early.ts";
import { createAiContext } from "./ai/context.ts";
import { startAuditWorker } from "./audit/worker.ts";
import { type AppContext, systemCall } from "./call.ts";
import { createCipher } from "./crypto/cipher.ts";
import { createPasswords, type HashCost } from "./crypto/passwords.ts";
import { openExternal } from "./external/registry.ts";
import { addGauges } from "./gauges.ts";
import { reportRefused } from "./interceptors/observe.ts";
import { startJobs } from "./jobs/cleanup.ts";
import { createRenderEmail } from "./mail/templates.ts";
import { createMailTransport, type MailTransport } from "./mail/transport.ts";
import { startMailWorker } from "./mail/worker.ts";
import { createMetrics } from "./metrics.ts";
import type { Config } from "./platform/config/config.ts";
import type { Admission } from "./platform/gate/admission.ts";
import { openGate } from "./platform/gate/server-hooks.ts";
import { createWebhookOutbound } from "./platform/outbound.ts";
import { createAgreedTime } from "./platform/process/agreed-time.ts";
import type { Clock } from "./platform/process/clock.ts";
import type { Slots } from "./platform/process/slots.ts";
import { policyOf, services } from "./platform/rpc/policy.ts";
import type { Tracing } from "./platform/telemetry/tracing.ts";
import { prepareAdministrator, prepareStore } from "./prepare.ts";
import { interceptors, serve } from "./router.ts";
import { healthChecks, healthHandler } from "./servers/health.ts";
import { createFindKey, createLastUsed, referenceOf } from "./sessions/check-api-key.ts";
import { createFindSession, createLastSeen } from "./sessions/check-session.ts";
import { openGeoIp } from "./sessions/geoip.ts";
import { openKeyRing } from "./sessions/key-ring.ts";
import type { Crossing } from "./store/budgets.ts";
import { openStore } from "./store/open-store.ts";
import { readSecretKeys } from "./store/secret-keys.ts";
import { readDatabaseTime, type Store } from "./store/store.ts";
import { startWebhookWorker } from "./webhooks/worker.ts";

/** The services of one process, ready to serve. */
export type App = Awaited<ReturnType<typeof openApp>>;

/** Dependencies provided by a process or a test. */
export type AppOptions = {
  log: Logger;
  clock: Clock;
  /** The secret that identifies gateways. */
  internalSecret: string | undefined;
  tracing?: Tracing | undefined;
  /** By default, limits derived from the memory of the process. */
  admission?: Admission | undefined;
  /** Tests use cheaper hashes. */
  hashCost?: HashCost | undefined;
  /** Limits the hashes that run at once; by default, one per core. */
  hashSlots?: Slots | undefined;
  /** Whether `prepare` has run, in the process that started this worker. */
  isPrepared?: boolean | undefined;
  /** Tests offset the database's clock by this many ms, as they do that of the process. */
  databaseAheadMs?: (() => number) | undefined;
};

/**
 * Opens everything that a call needs.
 * @throws Error for operators if the process cannot start
 */
export async function openApp(config: Config, options: AppOptions) {
  const { log, internalSecret, isPrepared = false } = options;
  for (const { methods } of services) methods.forEach(policyOf); // throws if a method declares no access
  if (!isPrepared) for (const warning of config.warnings) log.warn(warning);
  const open: Closable[] = [];
  const own = <T extends Closable | undefined>(resource: T): T => {
    if (resource) open.push(resource);
    return resource;
  };
  const close = async () => {
    for (const resource of open.splice(0).reverse()) await resource.close();
  };
  try {
    const store = own(await openStore(config.database, log, options.tracing?.addStatement));
    if (!isPrepared) await prepareStore(config, store, log);
    const sender = own(createMailTransport(config, log));
    const context = await openContext(config, store, sender, options, own);
    const { redis, rateLimiter, ...port } = await openGate(config, context.keys, {
      ...options,
      findKey: async (digest) => {
        const found = await context.findKey(digest);
        return found && referenceOf(found);
      },
      lookUp: (credential) =>
        credential.kind === "api-key"
          ? context.findKey(credential.digest)
          : context.findSession(credential.sessionId),
      refuseEarly: (method, credential) => refuseEarly(context, method, credential),
    });
    own(redis);
    const { metrics, webhookWorker } = context;
    own(
      startAuditWorker({
        ...context,
        countEvent: metrics.countEvent,
        onSealed: webhookWorker.plan,
      }),
    );
    const start = systemCall(context, store, "start");
    const setupToken = isPrepared ? undefined : await prepareAdministrator(start);
    own(startJobs(context));
    let draining = false;
    const checks = healthChecks({
      database: store.ping,
      cache: async () => void (await Promise.all([redis?.ping(), rateLimiter?.check()])),
      mail: sender.ping,
      clock: async () => {
        if (!context.agreedTime.agrees()) throw new Error("the clocks differ");
      },
    });
    addGauges(context, checks);
    const health = healthHandler(checks, () => draining);
    return {
      /** Adds every service to a router. */
      routes(router: ConnectRouter): void {
        serve(router);
        router.service(Health, health);
      },
      /** Opens the registration of the first administrator, while there is none. */
      setupToken,
      ...port,
      keys: context.keys,
      log,
      /** Logs and measures a call that a port rejects, since it never reaches the interceptors. */
      onRefused: reportRefused(context),
      store,
      metrics: context.metrics,
      interceptors: interceptors(context, rateLimiter, internalSecret),
      /** Health becomes NOT_SERVING, so that load balancers stop sending calls. */
      drain: () => {
        draining = true;
      },
      /** Finishes work in progress, then closes everything. */
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A resource. The resources of an app are closed in reverse order. */
type Closable = { close(): unknown };

async function openContext(
  config: Config,
  store: Store,
  sender: MailTransport,
  { log, clock, tracing, hashCost, hashSlots, databaseAheadMs = () => 0 }: AppOptions,
  own: <T extends Closable>(resource: T) => T,
): Promise<AppContext> {
  const cipher = createCipher(...readSecretKeys(config));
  const longestTokenMs = Math.max(
    config.accessTokenTtlMs,
    config.refreshTokenTtlMs,
    config.mfaTokenTtlMs,
  );
  const keys = await openKeyRing(store, cipher, clock, longestTokenMs);
  const agreedTime = createAgreedTime({
    clock,
    log,
    async readDatabaseTime() {
      const time = await readDatabaseTime({ em: store.fork() });
      return new Date(time.getTime() + databaseAheadMs());
    },
  });
  const metrics = createMetrics();
  const renderEmail = createRenderEmail(config);
  const mailWorker = own(
    startMailWorker({
      ...{ store, sender, cipher, clock, agreedTime, config, renderEmail, log },
      countEmail: metrics.countEmail,
    }),
  );
  const webhookOutbound = createWebhookOutbound(config.proxies, config.webhookNetworks);
  const webhookWorker = own(
    startWebhookWorker({
      ...{ store, clock, cipher, config, webhookOutbound, log, agreedTime, mailWorker },
      countDelivery: metrics.countDelivery,
    }),
  );
  const lastSeen = createLastSeen(store, log);
  own({ close: lastSeen.flush });
  const lastUsed = createLastUsed(store, log);
  own({ close: lastUsed.flush });
  const announce = (crossings: readonly Crossing[]) =>
    announceBudgets(systemCall(context, store, "jobs"), crossings);
  const context: AppContext = {
    ...{
      config,
      log,
      clock,
      agreedTime,
      tracing,
      store,
      cipher,
      keys,
      mailWorker,
      webhookOutbound,
      webhookWorker,
      renderEmail,
      lastSeen,
      lastUsed,
    },
    query: store.query,
    findSession: createFindSession(store, clock),
    findKey: createFindKey(store, clock),
    ai: own(createAiContext(config, store, clock, log, metrics, announce)),
    external: openExternal(config),
    locate: await openGeoIp(config.geoipDb),
    passwords: await createPasswords(hashCost, hashSlots),
    commonPasswords: readCommonPasswords(config),
    metrics,
  };
  return context;
}
