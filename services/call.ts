import { createContextKey, type HandlerContext } from "@connectrpc/connect";
import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import type { AiContext } from "./ai/context.ts";
import type { Cipher } from "./crypto/cipher.ts";
import type { Passwords } from "./crypto/passwords.ts";
import type { Attempt } from "./lockout/attempts.ts";
import type { MailWorker } from "./mail/worker.ts";
import type { Metrics } from "./metrics.ts";
import type { Clock } from "./platform/clock.ts";
import type { Config } from "./platform/config.ts";
import type { Client } from "./platform/metadata.ts";
import type { Tracing } from "./platform/tracing.ts";
import type { Standing } from "./rate-limit/limiter.ts";
import type { FindSession } from "./sessions/find-session.ts";
import type { GeoIp } from "./sessions/geoip.ts";
import type { LastSeen } from "./sessions/last-seen.ts";
import type { Caller } from "./sessions/sessions.ts";
import type { KeyRing } from "./sessions/signing-keys.ts";
import type { Store } from "./store/store.ts";

/** What every call of a process shares. */
export type AppContext = {
  config: Config;
  log: Logger;
  clock: Clock;
  cipher: Cipher;
  keys: KeyRing;
  passwords: Passwords;
  lastSeen: LastSeen;
  locate: GeoIp;
  mailWorker: MailWorker;
  ai: AiContext;
  metrics: Metrics;
  /** Undefined where nobody collects traces. */
  tracing: Tracing | undefined;
};

/** One RPC in progress. */
export type Call = AppContext & {
  /** Correlates log lines and audit events. */
  requestId: string;
  /** When it reached this process, by `performance.now()`. */
  startedAt: number;
  /** The trace it belongs to, as a W3C header. */
  traceparent: string | null;
  client: Client;
  /** Who calls; undefined on public methods. */
  caller: Caller | undefined;
  /** A unit of work of its own. */
  em: SqlEntityManager;
  /** Runs a statement of the hot path, outside of any transaction. */
  query: Store["query"];
  /** Finds the session of an access token. */
  findSession: FindSession;
  /** How it stands against its limits, where it was counted before it was known to come from its caller. */
  standing: Standing | undefined;
  /** The guess that a method with a lockout has counted; its operation settles it. */
  attempt: Attempt | undefined;
  /** Run once the call has ended, whether or not it succeeded. */
  onComplete: (() => void)[];
  /** Aborts when the client goes away or the deadline passes. */
  signal: AbortSignal;
};

/** A call on a method that demands an access token. */
export type SignedInCall = Call & { caller: Caller };

export const callKey = createContextKey<Call | undefined>(undefined, { description: "call" });

/** The call that a handler serves. */
export function callOf(ctx: Pick<HandlerContext, "values">): Call {
  const call = ctx.values.get(callKey);
  if (!call) throw new Error("no call was opened: the interceptors are missing");
  return call;
}

/** The call of a handler whose method demands an access token. */
export function signedInCallOf(ctx: Pick<HandlerContext, "values">): SignedInCall {
  const call = callOf(ctx);
  if (!call.caller) throw new Error("the method's policy lets anybody in, its handler expects a caller");
  return call as SignedInCall;
}
