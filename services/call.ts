import { createContextKey, type HandlerContext } from "@connectrpc/connect";
import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import type { AiContext } from "./ai/context.ts";
import type { Cipher } from "./crypto/cipher.ts";
import type { Passwords } from "./crypto/passwords.ts";
import type { ExternalContext } from "./external/registry.ts";
import type { RenderEmail } from "./mail/templates.ts";
import type { MailWorker } from "./mail/worker.ts";
import type { Metrics } from "./metrics.ts";
import type { Config } from "./platform/config/config.ts";
import type { WebhookOutbound } from "./platform/outbound.ts";
import type { AgreedTime } from "./platform/process/agreed-time.ts";
import type { Clock } from "./platform/process/clock.ts";
import { type Client, requestIdOf } from "./platform/rpc/metadata.ts";
import type { Tracing } from "./platform/telemetry/tracing.ts";
import type { Principal, SessionPrincipal, UserPrincipal } from "./principal.ts";
import type { FindUsableKey, LastUsed } from "./sessions/check-api-key.ts";
import type { FindSession, LastSeen } from "./sessions/check-session.ts";
import type { KeyRing } from "./sessions/key-ring.ts";
import type { Store } from "./store/store.ts";

/** Dependencies shared by all calls of a process. */
export type AppContext = {
  config: Config;
  log: Logger;
  clock: Clock;
  /** The time that deleting jobs use. */
  agreedTime: AgreedTime;
  store: Store;
  /** Runs a prepared statement on a hot path, outside of any transaction. */
  query: Store["query"];
  /** Finds the session of an access token. */
  findSession: FindSession;
  /** Finds an API key that may be used. */
  findKey: FindUsableKey;
  cipher: Cipher;
  keys: KeyRing;
  passwords: Passwords;
  /** Passwords that `PASSWORD_BLOCKLIST` rejects. */
  commonPasswords: ReadonlySet<string>;
  lastSeen: LastSeen;
  lastUsed: LastUsed;
  /** Looks up the location of an IP address, such as "Berlin, Germany"; null if unknown. */
  locate: (address: string) => string | null;
  mailWorker: MailWorker;
  renderEmail: RenderEmail;
  ai: AiContext;
  external: ExternalContext;
  webhookOutbound: WebhookOutbound;
  /** Plans and sends deliveries at once instead of within a second. */
  webhookWorker: { plan(): void; wake(): void };
  metrics: Metrics;
  /** Undefined unless traces are exported. */
  tracing: Tracing | undefined;
};

type Request = { header: Headers; signal: AbortSignal };

/** Copies the shared dependencies, since they are read often. */
const Shared = class {
  constructor(context: AppContext) {
    Object.assign(this, context);
  }
} as new (
  context: AppContext,
) => Readonly<AppContext>;

/** One RPC in progress. */
export class Call extends Shared {
  /** Correlates log lines and audit events. */
  readonly requestId: string;
  /** When the call reached this process, by `performance.now()`. */
  readonly startedAt = performance.now();
  /** The trace that the call belongs to, as a W3C `traceparent` header. */
  readonly traceparent: string | null;
  readonly client: Client;
  /** Who makes the call; undefined for public methods and until the call is authorized. */
  principal: Principal | undefined;
  /** Callbacks for when the call has ended, successfully or not. */
  readonly onComplete: (() => void)[] = [];
  readonly #request: Request;
  #em: SqlEntityManager | undefined;

  constructor(context: AppContext, client: Client, request: Request) {
    super(context);
    this.requestId = requestIdOf(request.header.get("x-request-id"));
    this.traceparent = request.header.get("traceparent");
    this.client = client;
    this.#request = request;
  }

  /** The unit of work, created on first use. */
  get em(): SqlEntityManager {
    this.#em ??= this.store.fork();
    return this.#em;
  }

  /** Aborts when the client disconnects or the deadline passes. */
  get signal(): AbortSignal {
    return this.#request.signal;
  }
}

/**
 * The part of a call that calls without a client have, too: those made at startup, by jobs and by
 * operators.
 */
export type SystemCall = Pick<
  Call,
  "em" | "config" | "clock" | "client" | "requestId" | "principal"
> &
  Pick<Call, "onComplete" | "mailWorker"> &
  Partial<Pick<Call, "locate">>; // the system itself is nowhere

/**
 * Creates a call made by the system itself.
 * @param agent user agent in the audit log
 */
export function systemCall<Context extends Pick<AppContext, "config" | "clock" | "mailWorker">>(
  context: Context,
  store: Pick<Store, "fork">,
  requestId: string,
  agent = requestId,
): Context & SystemCall {
  const client = { address: "127.0.0.1", agent };
  return {
    ...context,
    em: store.fork(),
    client,
    requestId,
    principal: { kind: "system", reason: requestId },
    onComplete: [],
  };
}

/** A call of a method that requires a user. */
export type UserCall = Call & { principal: UserPrincipal };

/** A call of an operation that manages sessions or depends on the time of the sign-in. */
export type SessionCall = Call & { principal: SessionPrincipal };

export const callKey = createContextKey<Call | undefined>(undefined, { description: "call" });

/** The call of a handler. */
export function callOf(ctx: Pick<HandlerContext, "values">): Call {
  const call = ctx.values.get(callKey);
  if (!call) throw new Error("no call in the context: the interceptors are missing");
  return call;
}

/** The call of a handler whose method requires a user, by session or by API key. */
export function userCallOf(ctx: Pick<HandlerContext, "values">): UserCall {
  const call = callOf(ctx);
  if (call.principal === undefined || call.principal.kind === "system")
    throw new Error("the method is public by its policy, but its handler needs a user");
  return call as UserCall;
}

/** The call of a handler whose method requires the access token of a session. */
export function sessionCallOf(ctx: Pick<HandlerContext, "values">): SessionCall {
  const call = callOf(ctx);
  if (call.principal?.kind !== "session")
    throw new Error("the handler needs a session, but the method's policy does not require one");
  return call as SessionCall;
}
