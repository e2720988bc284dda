import { type Timestamp, timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { AdminService } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { countWaysIn } from "../accounts/ways-in.ts";
import { callOf, sessionCallOf } from "../call.ts";
import { identityMessage } from "../external/identity-message.ts";
import { type AdminUser, listUsers } from "../store/admin-users.ts";
import { listAllKeys } from "../store/api-keys.ts";
import { listAuditEvents } from "../store/audit-events.ts";
import { readChainState } from "../store/audit-seals.ts";
import { listEmails } from "../store/emails.ts";
import { listIdentities } from "../store/identities.ts";
import { canonicalId } from "../store/ids.ts";
import { findPeople } from "../store/person.ts";
import { listOpenSessions } from "../store/sessions.ts";
import { listDeliveries } from "../store/webhook-deliveries.ts";
import { type ListedWebhook, listWebhooks } from "../store/webhooks.ts";
import { profileOf, sessionMessage, toMessage, waysInMessage } from "../user/to-message.ts";
import { impersonate } from "./impersonate.ts";
import { inviteUser } from "./invite-user.ts";
import { deleteUser, readAdminUser, revokeUserSessions, updateUserAsAdmin } from "./manage-user.ts";
import { changeWebhook, createWebhook, removeWebhook, rotateSecret } from "./manage-webhooks.ts";
import { previewEmail } from "./preview-email.ts";
import { readOverview } from "./read-overview.ts";
import { replayWebhook, retryDelivery, testWebhook } from "./redeliver.ts";
import { resetUserAccess } from "./reset-user-access.ts";
import { retryEmail } from "./retry-email.ts";
import { createServiceAccount, createServiceKey } from "./service-accounts.ts";
import { updateKey } from "./update-api-key.ts";

/** Maps messages to operations and back. Contains no decisions. */
export const adminHandler: Partial<ServiceImpl<typeof AdminService>> = {
  async getOverview({ period }, ctx) {
    const overview = await readOverview(callOf(ctx), period);
    return { ...overview, providers: overview.providers.map(toMessage) };
  },
  async listUsers(req, ctx) {
    const call = callOf(ctx);
    const page = await listUsers(call, req, req);
    return { ...page, items: page.items.map((user) => adminUser(user, call.clock.now())) };
  },
  async getUser(req, ctx) {
    const call = callOf(ctx);
    return { user: adminUser(await readAdminUser(call, req.id), call.clock.now()) };
  },
  async inviteUser(req, ctx) {
    const call = sessionCallOf(ctx);
    const user = await inviteUser(call, req);
    return { message: "The invitation is on its way.", user: adminUser(user, call.clock.now()) };
  },
  async resetAccess(req, ctx) {
    await resetUserAccess(sessionCallOf(ctx), req.id);
    return {
      message:
        "Access has been reset. The user can sign in again after setting a new password with the link in the e-mail.",
    };
  },
  async updateUser(req, ctx) {
    const call = sessionCallOf(ctx);
    const user = await updateUserAsAdmin(call, req.id, req, req);
    return { message: "The user has been updated.", user: adminUser(user, call.clock.now()) };
  },
  async deleteUser(req, ctx) {
    await deleteUser(callOf(ctx), req.id);
    return { message: "The user has been erased." };
  },
  async listUserSessions(req, ctx) {
    const call = sessionCallOf(ctx);
    await readAdminUser(call, req.id);
    const sessions = await listOpenSessions(call, req.id, call.clock.now());
    return { sessions: sessions.map((row) => sessionMessage(row, call)) };
  },
  async listUserIdentities(req, ctx) {
    const call = callOf(ctx);
    await readAdminUser(call, req.id);
    return { identities: (await listIdentities(call, req.id)).map(identityMessage) };
  },
  async getUserSignInMethods(req, ctx) {
    const call = callOf(ctx);
    const user = await readAdminUser(call, req.id);
    return waysInMessage(await countWaysIn(call, user.id), user);
  },
  async revokeUserSessions(req, ctx) {
    const ended = await revokeUserSessions(callOf(ctx), req.id);
    return { message: ended === 1 ? "1 session has ended." : `${ended} sessions have ended.` };
  },
  async listAuditLogs(req, ctx) {
    const filter = { ...req, from: dateOf(req.from), to: dateOf(req.to) };
    const call = callOf(ctx);
    const [page, chain] = await Promise.all([
      listAuditEvents(call, filter, req),
      readChainState(call),
    ]);
    const items = page.items.map((event) =>
      toMessage({ ...event, location: call.locate(event.ip) }),
    );
    return { ...page, items, chain: toMessage(chain) };
  },
  async listEmailLogs(req, ctx) {
    const page = await listEmails(callOf(ctx), req, req);
    return { ...page, items: page.items.map(toMessage) };
  },
  previewEmail: (req, ctx) => previewEmail(callOf(ctx), req.id),
  async retryEmail(req, ctx) {
    await retryEmail(callOf(ctx), req.id);
    return { message: "The e-mail has been queued again." };
  },
  async impersonate(req, ctx) {
    const call = sessionCallOf(ctx);
    const { accessToken, user, expiresAt } = await impersonate(call, req.userId, req.reason);
    return {
      accessToken,
      user: profileOf(user, call.config),
      expiresAt: timestampFromDate(expiresAt),
    };
  },
  async listAllApiKeys(req, ctx) {
    const call = callOf(ctx);
    const page = await listAllKeys(call, req, req);
    const people = await findPeople(
      call,
      page.items.map(({ userId }) => userId),
    );
    const items = page.items.map((key) => ({ ...toMessage(key), user: people.get(key.userId) }));
    return { ...page, items };
  },
  async updateApiKey(req, ctx) {
    const key = await updateKey(sessionCallOf(ctx), req.id, {
      models: req.models,
      requestsPerMinute: req.requestsPerMinute,
      expiresAt: req.expiresAt,
      revoked: req.revoked,
    });
    return { message: "The API key has been updated.", apiKey: toMessage(key) };
  },
  async createServiceAccount(req, ctx) {
    const call = sessionCallOf(ctx);
    const user = await createServiceAccount(call, req.name);
    return { user: adminUser(user, call.clock.now()) };
  },
  async createServiceAccountKey(req, ctx) {
    const call = sessionCallOf(ctx);
    const { apiKey, key } = await createServiceKey(call, req.id, req, req.password);
    return { apiKey: toMessage(apiKey), key };
  },
  async listWebhooks(_req, ctx) {
    const call = callOf(ctx);
    const webhooks = await listWebhooks(call);
    return { webhooks: webhooks.map((each) => webhookMessage(each, call.clock.now())) };
  },
  async createWebhook(req, ctx) {
    const call = sessionCallOf(ctx);
    const { webhook, secret } = await createWebhook(call, req);
    return { webhook: webhookMessage(webhook, call.clock.now()), secret };
  },
  async updateWebhook(req, ctx) {
    const call = sessionCallOf(ctx);
    const webhook = webhookMessage(await changeWebhook(call, req), call.clock.now());
    return { message: "The webhook has been updated.", webhook };
  },
  async deleteWebhook(req, ctx) {
    await removeWebhook(sessionCallOf(ctx), req.id);
    return { message: "The webhook has been deleted." };
  },
  async rotateWebhookSecret(req, ctx) {
    const call = sessionCallOf(ctx);
    const { webhook, secret } = await rotateSecret(call, req.id);
    return { webhook: webhookMessage(webhook, call.clock.now()), secret };
  },
  async testWebhook(req, ctx) {
    const deliveryId = await testWebhook(sessionCallOf(ctx), req.id);
    return { message: "The test is on its way.", deliveryId };
  },
  async replayWebhook(req, ctx) {
    const queued = await replayWebhook(sessionCallOf(ctx), req);
    const message =
      queued === 1 ? "1 event has been queued." : `${queued} events have been queued.`;
    return { message, queued };
  },
  async listWebhookDeliveries(req, ctx) {
    const filter = { ...req, webhookId: req.webhookId && canonicalId(req.webhookId) };
    const page = await listDeliveries(callOf(ctx), filter, req);
    return { ...page, items: page.items.map(toMessage) };
  },
  async retryWebhookDelivery(req, ctx) {
    await retryDelivery(sessionCallOf(ctx), req.id);
    return { message: "The delivery has been queued again." };
  },
};

const webhookMessage = ({ previousUntil, ...webhook }: ListedWebhook, now: Date) =>
  toMessage({
    ...webhook,
    previousSecretUntil: previousUntil && previousUntil > now ? previousUntil : null,
  });

const dateOf = (time: Timestamp | undefined) => time && timestampDate(time);

const adminUser = ({ lockedUntil, secondFactor, ...user }: AdminUser, now: Date) =>
  toMessage({
    ...user,
    locked: lockedUntil !== null && lockedUntil > now,
    secondFactorRequired: secondFactor ? true : null,
  });
