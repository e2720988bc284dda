import type { AuditedEvent } from "../audit/record.ts";

/**
 * All audit events, and whether webhooks can subscribe to them. Events that strangers can cause as
 * often as they like are not offered, because they would fill the queue. `auth.locked` reports
 * them.
 */
const OFFERED: Record<AuditedEvent, boolean> = {
  "auth.register": true,
  "auth.login": true,
  "auth.login_failed": false,
  "auth.locked": true,
  "auth.logout": true,
  "auth.refresh_reused": true,
  "auth.confirmed": true,
  "auth.passkey_counter_fell": true,
  "auth.external_failed": false,
  "auth.disowned": true,
  "auth.email_code_requested": true,
  "auth.email_verified": true,
  "auth.password_reset_requested": true,
  "auth.password_reset": true,
  "auth.mfa_setup": true,
  "auth.mfa_verified": true,
  "auth.mfa_failed": false,
  "auth.mfa_disabled": true,
  "auth.backup_code_used": true,
  "user.profile_updated": true,
  "user.password_changed": true,
  "user.email_changed": true,
  "user.session_revoked": true,
  "user.passkey_added": true,
  "user.passkey_removed": true,
  "user.identity_added": true,
  "user.identity_removed": true,
  "user.taken_back": true,
  "user.device_forgotten": true,
  "user.password_set": true,
  "user.password_removed": true,
  "user.second_factor_changed": true,
  "user.api_key_created": true,
  "user.api_key_revoked": true,
  "user.budget_exceeded": true,
  "user.deletion_requested": true,
  "user.exported": true,
  "user.restored": true,
  "user.erased": true,
  "admin.budget_set": true,
  "admin.budget_deleted": true,
  "admin.budget_adjusted": true,
  "admin.user_updated": true,
  "admin.user_deleted": true,
  "admin.sessions_revoked": true,
  "admin.impersonated": true,
  "admin.user_invited": true,
  "admin.access_reset": true,
  "admin.user_suspended": true,
  "admin.user_reinstated": true,
  "admin.api_key_updated": true,
  "admin.service_account_created": true,
  "admin.email_retried": true,
  "admin.keys_withdrawn": true,
  "admin.webhook_changed": true,
  "admin.webhook_replayed": true,
  "admin.denied": false,
};

const names = Object.keys(OFFERED) as AuditedEvent[];
const domainOf = (event: string) => event.split(".")[0];
const domains = new Set(names.map(domainOf));

const isRefused = (event: string) =>
  Object.hasOwn(OFFERED, event) && !OFFERED[event as AuditedEvent];

/** Whether a webhook may subscribe to a name: an event that is offered, or `domain.*`. */
export const isSubscribable = (name: string): boolean =>
  name.endsWith(".*")
    ? domains.has(domainOf(name))
    : Object.hasOwn(OFFERED, name) && !isRefused(name);

/**
 * Whether a webhook gets an event. One of a later release, which runs beside this one during an
 * upgrade, belongs to its domain.
 * @param subscribed names of events, or `domain.*`
 */
export const wantsEvent = (subscribed: readonly string[], event: string): boolean =>
  !isRefused(event) && (subscribed.includes(event) || subscribed.includes(`${domainOf(event)}.*`));

/** The names of the events that a webhook gets. */
export const eventNamesOf = (subscribed: readonly string[]): string[] =>
  names.filter((name) => wantsEvent(subscribed, name));
