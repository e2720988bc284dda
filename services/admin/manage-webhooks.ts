import type {
  CreateWebhookRequest,
  UpdateWebhookRequest,
} from "../../gen/gatehouse/account/v1/webhook_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertRecentAdminSignIn, assertStillAdmin } from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { canonicalId, newId } from "../store/ids.ts";
import { disableWebhook } from "../store/webhook-deliveries.ts";
import {
  deleteWebhook,
  findWebhook,
  insertWebhook,
  type ListedWebhook,
  lockWebhook,
  updateWebhook,
  type Webhook,
} from "../store/webhooks.ts";
import { secretContext, WEBHOOK_OFF } from "../webhooks/deliver.ts";
import { urlProblem } from "../webhooks/endpoint-url.ts";
import { isSubscribable } from "../webhooks/events.ts";
import { newWebhookSecret } from "../webhooks/sign.ts";

/** Maximum number of webhooks. */
const MAX_WEBHOOKS = 20;

/** How long deliveries are also signed with the previous secret after a rotation, in ms. */
const ROTATION_MS = 24 * 3_600_000;

/** A webhook and its secret, which is shown once. */
type WithSecret = { webhook: ListedWebhook; secret: string };

/**
 * Creates a webhook for events from now on.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, VALIDATION_FAILED, CONFLICT, FORBIDDEN
 */
export async function createWebhook(
  call: SessionCall,
  { url, events, description }: CreateWebhookRequest,
): Promise<WithSecret> {
  assertRecentAdminSignIn(call);
  assertUsableUrl(call, url);
  assertSubscribable(events);
  const createdAt = call.clock.now();
  const id = newId(createdAt);
  const secret = newWebhookSecret();
  const row = {
    ...{ id, url, events, createdAt },
    description: description || null,
    secret: call.cipher.encrypt(secret, secretContext(id)),
  };
  return call.em.transactional(async () => {
    await assertStillAdmin(call);
    if (!(await insertWebhook(call, row, MAX_WEBHOOKS))) {
      const message = `There are already ${MAX_WEBHOOKS} webhooks, which is the maximum. Please delete one first.`;
      throw new ServiceError(Reason.CONFLICT, message);
    }
    await recordChange(call, row, { change: "created", events });
    return { webhook: await readWebhook(call, id), secret };
  });
}

/**
 * Changes a webhook. Absent fields and an empty list keep their values.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, VALIDATION_FAILED, NOT_FOUND, FORBIDDEN
 */
export async function changeWebhook(
  call: SessionCall,
  request: UpdateWebhookRequest,
): Promise<ListedWebhook> {
  const { url, events, description, disabled } = request;
  assertRecentAdminSignIn(call);
  if (url !== undefined) assertUsableUrl(call, url);
  assertSubscribable(events);
  return call.em.transactional(async () => {
    const before = await lockForChange(call, request.id);
    const changed: Webhook = {
      ...before,
      ...(url !== undefined && { url }),
      ...(events.length > 0 && { events }),
      ...(description !== undefined && { description: description || null }),
      ...(disabled === false && { disabledAt: null, disabledReason: null }),
      ...(disabled === false && before.disabledAt && { failingSince: null }),
    };
    await updateWebhook(call, changed);
    const fields = Object.entries({ url, events: events[0], description })
      .filter(([, value]) => value !== undefined)
      .map(([name]) => name);
    if (fields.length > 0)
      await recordChange(call, changed, {
        ...{ change: "updated", fields },
        ...(events.length > 0 && { events }),
      });
    if (disabled === true && !before.disabledAt) {
      const why = { reason: "requested", why: WEBHOOK_OFF, now: call.clock.now() } as const;
      await disableWebhook(call, before.id, why);
      await recordChange(call, changed, { change: "disabled", reason: "requested" });
    }
    if (disabled === false && before.disabledAt)
      await recordChange(call, changed, { change: "enabled" });
    return readWebhook(call, before.id);
  });
}

/**
 * Deletes a webhook with its deliveries.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, FORBIDDEN
 */
export async function removeWebhook(call: SessionCall, id: string): Promise<void> {
  assertRecentAdminSignIn(call);
  await call.em.transactional(async () => {
    const webhook = await lockForChange(call, id);
    await deleteWebhook(call, webhook.id);
    await recordChange(call, webhook, { change: "deleted" });
  });
}

/**
 * Replaces the secret of a webhook. The previous secret also signs for a day; older ones do not.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, FORBIDDEN
 */
export async function rotateSecret(call: SessionCall, id: string): Promise<WithSecret> {
  assertRecentAdminSignIn(call);
  const secret = newWebhookSecret();
  return call.em.transactional(async () => {
    const webhook = await lockForChange(call, id);
    await updateWebhook(call, {
      ...webhook,
      secret: call.cipher.encrypt(secret, secretContext(webhook.id)),
      previousSecret: webhook.secret,
      previousUntil: new Date(call.clock.now().getTime() + ROTATION_MS),
    });
    await recordChange(call, webhook, { change: "secret-rotated" });
    return { webhook: await readWebhook(call, webhook.id), secret };
  });
}

/**
 * Locks a webhook, and checks that the caller is still an administrator.
 * @throws ServiceError NOT_FOUND, FORBIDDEN
 */
export async function lockForChange(call: SessionCall, id: string): Promise<Webhook> {
  const webhook = await lockWebhook(call, canonicalId(id));
  await assertStillAdmin(call);
  if (!webhook) throw webhookNotFound();
  return webhook;
}

const readWebhook = async (call: SessionCall, id: string): Promise<ListedWebhook> => {
  const webhook = await findWebhook(call, id);
  if (!webhook) throw webhookNotFound();
  return webhook;
};

const webhookNotFound = () => new ServiceError(Reason.NOT_FOUND, "There is no such webhook.");

/** @throws ServiceError VALIDATION_FAILED */
function assertUsableUrl({ webhookOutbound }: SessionCall, url: string): void {
  const problem = urlProblem(url, webhookOutbound);
  if (problem) throw invalid("url", problem);
}

/** @throws ServiceError VALIDATION_FAILED */
function assertSubscribable(events: readonly string[]): void {
  const i = events.findIndex((name) => !isSubscribable(name));
  if (i >= 0)
    throw invalid(`events[${i}]`, "must be the name of an event that webhooks can receive");
}

/** Records a change. Of the URL the host alone, since the rest may be a secret of its receiver. */
const recordChange = (
  call: SessionCall,
  { id, url }: Pick<Webhook, "id" | "url">,
  change: { change: string; fields?: string[]; events?: string[]; reason?: string },
) =>
  recordAudit(call, "admin.webhook_changed", {
    userId: undefined,
    details: { id, host: new URL(url).host, ...change },
  });
