import { type AdminUser, FORBIDDEN_IMPERSONATING, type User } from "@gatehouse/client";
import type { MessageKey } from "../messages/index.ts";

/** The acting user: whose data is shown, and whether it is someone else's (impersonation). */
export type Actor = { viewer: User | undefined; isImpersonating: boolean };
/** The user that an administrator manages. */
export type Target = Pick<AdminUser, "id" | "role" | "serviceAccount" | "suspendedAt">;
/** The reason why something is refused, as a message key; undefined if it is allowed. */
type Rule = (actor: Actor, target?: Target) => MessageKey | undefined;

const byOwner: Rule = ({ isImpersonating }) =>
  isImpersonating ? "errors.IMPERSONATING" : undefined;

const byAdmin: Rule = (actor) =>
  byOwner(actor) ?? (actor.viewer?.role === "admin" ? undefined : "errors.FORBIDDEN");

/**
 * Rejects an action for service accounts, of which only name, metadata and suspension can be
 * changed.
 */
const toPeople =
  (rule: Rule): Rule =>
  (actor, target) =>
    byAdmin(actor) ?? (target?.serviceAccount ? "refused.serviceAccount" : rule(actor, target));

const toOthers: Rule = (actor, target) =>
  byAdmin(actor) ?? (target?.id === actor.viewer?.id ? "errors.SELF_TARGETED" : undefined);

/**
 * Rejects changes to an administrator's access: a stolen access token must not suffice to take over
 * such an account.
 */
const toAccess: Rule = (actor, target) => {
  if (target?.role !== "admin") return byAdmin(actor);
  const isOwn = target.id === actor.viewer?.id;
  return byAdmin(actor) ?? (isOwn ? "refused.ownAccess" : "refused.administratorAccess");
};

/** Administrators must be demoted before they are suspended, which requires a password. */
const toSuspendable: Rule = (actor, target) =>
  toOthers(actor, target) ?? (target?.role === "admin" ? "refused.suspendAdmin" : undefined);

const toOrdinary: Rule = (actor, target) => {
  if (target?.suspendedAt) return byAdmin(actor) ?? "refused.suspended";
  return (
    toOthers(actor, target) ?? (target?.role === "admin" ? "refused.impersonateAdmin" : undefined)
  );
};

/** Suspended users must be reinstated before they become administrators. */
const toRole: Rule = (actor, target) =>
  toOthers(actor, target) ?? (target?.suspendedAt ? "refused.suspended" : undefined);

/** The methods that the API denies to an administrator who acts as a user. */
type OwnersMethod = (typeof FORBIDDEN_IMPERSONATING)[number];
const byMethod = Object.fromEntries(
  FORBIDDEN_IMPERSONATING.map((method) => [method, byOwner]),
) as Record<OwnersMethod, Rule>;

/**
 * Rules for who may do what besides reading, matching the API (`docs/rest.md`), by API method and,
 * if a method changes several things, by what is changed.
 */
const RULES = {
  ...byMethod,
  /** All pages and actions for administrators without a separate rule below. */
  administration: byAdmin,
  "updateUser.role": toPeople(toRole),
  "updateUser.access": toPeople(toAccess),
  "updateUser.suspended": toSuspendable,
  deleteUser: toOthers,
  impersonate: toPeople(toOrdinary),
} satisfies Record<string, Rule>;

/** An action that a page offers. */
export type Action = keyof typeof RULES;
export const ACTIONS = Object.keys(RULES) as Action[];

/**
 * Whether an action may be offered. The API decides; pages only avoid offering actions that are
 * certain to be refused.
 * @returns the reason for the refusal, as a message key; undefined if the action may be offered
 */
export const refusalOf = (action: Action, actor: Actor, target?: Target): MessageKey | undefined =>
  (RULES[action] as Rule)(actor, target);
