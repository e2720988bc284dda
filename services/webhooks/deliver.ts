import { create, type JsonObject, toJson } from "@bufbuild/protobuf";
import { UserSchema } from "../../gen/gatehouse/account/v1/user_pb.ts";
import type { AppContext } from "../call.ts";
import { describeOutboundError } from "../platform/outbound.ts";
import { version } from "../platform/process/version.ts";
import type { Db } from "../store/statement.ts";
import { User } from "../store/users.ts";
import {
  type ClaimedDelivery,
  type DeliveredEvent,
  type DeliveryResult,
  findDeliveredEvent,
} from "../store/webhook-deliveries.ts";
import type { DisabledReason } from "../store/webhooks.ts";
import { profileOf } from "../user/to-message.ts";
import { signDelivery } from "./sign.ts";

/** The type of the event that administrators send to see whether an endpoint works. */
export const TEST_EVENT = "webhook.test";

/** Time limit for a delivery, in ms, including the connection and the status of the response. */
const DELIVERY_MS = 10_000;
/**
 * Delay before the next attempt, in ms: as long as the delivery has been waiting, so that delays
 * double, with jitter.
 */
const [MIN_BACKOFF_MS, MAX_BACKOFF_MS] = [5_000, 6 * 3_600_000];
/** Longest delay that an endpoint may ask for with `Retry-After`, in ms. */
const MAX_RETRY_AFTER_MS = 24 * 3_600_000;
/** Age at which a delivery is given up, in ms. */
const GIVE_UP_MS = 3 * 24 * 3_600_000;
/** How long an endpoint may fail without a success before its webhook is turned off, in ms. */
const DISABLE_MS = 5 * 24 * 3_600_000;
const GONE = 410;

/** The error of deliveries of a webhook that is off. */
export const WEBHOOK_OFF = "the webhook was turned off";

/** The context in which the secret of a webhook is encrypted. */
export const secretContext = (webhookId: string): string => `webhook ${webhookId}`;

export type DeliverDeps = Pick<
  AppContext,
  "store" | "clock" | "cipher" | "config" | "webhookOutbound" | "log"
>;

/**
 * A claimed delivery. `mayGiveUp`: whether the time is reliable enough to give it up because of its
 * age.
 */
export type DueDelivery = ClaimedDelivery & { mayGiveUp: boolean };

/** How an attempt has ended, and what follows for its webhook. */
export type Attempted = {
  result: DeliveryResult;
  /** When the endpoint failed. */
  failedAt?: Date;
  /** Why the webhook should be turned off. */
  disable?: Exclude<DisabledReason, "requested">;
};

/**
 * Posts an event to the endpoint of its webhook, signed. Succeeds with a status from 200 to 299.
 * Never throws.
 */
export async function deliver(
  deps: DeliverDeps,
  delivery: DueDelivery,
  signal: AbortSignal,
): Promise<Attempted> {
  const { clock, webhookOutbound, log } = deps;
  if (delivery.isDisabled && delivery.event !== TEST_EVENT) return givenUp(WEBHOOK_OFF);
  let request: DeliveryRequest | undefined;
  try {
    request = await requestOf(deps, delivery);
  } catch (error) {
    const { id, webhookId: webhook } = delivery;
    const reason = (error as Error).message;
    log.warn({ delivery: id, webhook, reason }, "a delivery of a webhook can't be prepared");
    return { result: laterOrNever(deps, delivery, { lastError: "it could not be prepared" }) };
  }
  if (!request) return givenUp("its event is no longer in the audit log");
  try {
    const ending = AbortSignal.any([signal, AbortSignal.timeout(DELIVERY_MS)]);
    const { url } = delivery;
    const { status, retryAfter } = await webhookOutbound.post(
      url,
      request.headers,
      request.body,
      ending,
    );
    if (status >= 200 && status <= 299) return delivered(status, clock.now());
    return failed(deps, delivery, { status, lastError: `status ${status}`, retryAfter });
  } catch (error) {
    return failed(deps, delivery, { lastError: describeOutboundError(error) });
  }
}

type DeliveryRequest = { headers: Record<string, string>; body: string };

/**
 * The signed request of a delivery; undefined once retention has dropped its event.
 * @throws Error if the database fails, or no key of SECRET_KEY decrypts the secret
 */
async function requestOf(
  deps: DeliverDeps,
  delivery: DueDelivery,
): Promise<DeliveryRequest | undefined> {
  const event = await eventOf(deps, delivery);
  if (!event) return undefined;
  const body = JSON.stringify(await contentOf(deps, event));
  const context = secretContext(delivery.webhookId);
  const secrets = delivery.secrets.map((sealed) => deps.cipher.decrypt(sealed, context));
  const signature = signDelivery(secrets, { id: delivery.eventId, now: deps.clock.now(), body });
  const length = { "content-length": String(Buffer.byteLength(body)) };
  return { headers: { ...HEADERS, ...signature, ...length }, body };
}

const HEADERS = {
  "content-type": "application/json",
  "user-agent": `gatehouse/${version}`,
};

const givenUp = (lastError: string): Attempted => ({
  result: { ...ENDED, status: "failed", lastError },
});

const delivered = (responseStatus: number, deliveredAt: Date): Attempted => ({
  result: { ...ENDED, status: "delivered", responseStatus, deliveredAt },
});

const ENDED = { nextAttemptAt: null, responseStatus: null, lastError: null, deliveredAt: null };

type Failure = { lastError: string; status?: number; retryAfter?: string | undefined };

/** The endpoint has not accepted a delivery. */
function failed(deps: DeliverDeps, delivery: DueDelivery, failure: Failure): Attempted {
  const now = deps.clock.now();
  const { failingSince, mayGiveUp } = delivery;
  const failingMs = failingSince ? now.getTime() - failingSince.getTime() : 0;
  const isTooLong = mayGiveUp && failingMs >= DISABLE_MS;
  const result = laterOrNever(deps, delivery, failure);
  const { id, webhookId: webhook, event, attempts: attempt } = delivery;
  const reason = failure.lastError;
  deps.log[result.status === "failed" ? "warn" : "debug"](
    { delivery: id, webhook, event, attempt, reason },
    "a delivery of a webhook has failed",
  );
  if (failure.status === GONE) return { result, failedAt: now, disable: "gone" };
  return { result, failedAt: now, ...(isTooLong && { disable: "failing" as const }) };
}

/** A delivery that is tried again later, or has failed for good because of its age. */
function laterOrNever(
  { clock }: Pick<DeliverDeps, "clock">,
  { queuedAt, event, mayGiveUp }: DueDelivery,
  { lastError, status, retryAfter }: Failure,
): DeliveryResult {
  const now = clock.now().getTime();
  const ageMs = now - queuedAt.getTime();
  const ended = { ...ENDED, responseStatus: status ?? null, lastError };
  const isLast = event === TEST_EVENT || status === GONE || (mayGiveUp && ageMs >= GIVE_UP_MS);
  if (isLast) return { ...ended, status: "failed" };
  const backoffMs = Math.min(Math.max(ageMs, MIN_BACKOFF_MS), MAX_BACKOFF_MS);
  const jitter = 0.75 + Math.random() / 2;
  const askedMs = Math.min(retryAfterMs(retryAfter, now), MAX_RETRY_AFTER_MS);
  const nextAttemptAt = new Date(now + Math.max(backoffMs * jitter, askedMs));
  return { ...ended, status: "queued", nextAttemptAt };
}

/**
 * The delay that `Retry-After` asks for, in ms (RFC 9110 section 10.2.3); 0 if it is absent or
 * unreadable.
 */
function retryAfterMs(value: string | undefined, now: number): number {
  if (value === undefined) return 0;
  const ms = /^\d{1,9}$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - now;
  return Number.isFinite(ms) ? Math.max(ms, 0) : 0;
}

/** The event of a delivery; undefined once retention has dropped it. */
async function eventOf(
  { store }: DeliverDeps,
  { event, eventId, queuedAt }: DueDelivery,
): Promise<DeliveredEvent | undefined> {
  if (event !== TEST_EVENT) return findDeliveredEvent({ em: store.fork() }, eventId);
  return { event, userId: null, actorId: null, details: {}, createdAt: queuedAt };
}

/** What a delivery says, without the client's address and User-Agent. */
async function contentOf(
  { store, config }: DeliverDeps,
  { event, userId, actorId, details, createdAt }: DeliveredEvent,
): Promise<JsonObject> {
  const user = userId ? await userOf({ em: store.fork() }, userId, config) : undefined;
  return {
    type: event,
    timestamp: createdAt.toISOString(),
    data: {
      ...(userId && { userId }),
      ...(actorId && { actorId }),
      details,
      ...(user && { user }),
    },
  };
}

/** The profile of a user, as of now; undefined once the account is erased. */
async function userOf(
  { em }: Db,
  id: string,
  config: DeliverDeps["config"],
): Promise<JsonObject | undefined> {
  const user = await em.findOne(User, { id });
  if (!user) return undefined;
  const profile = create(UserSchema, profileOf(user, config));
  return toJson(UserSchema, profile, { alwaysEmitImplicit: true }) as JsonObject; // false counts, too
}
