import type { AdminUser, User } from "@gatehouse/client";
import type { MessageKey } from "../messages/index.ts";

/** Who acts: whose data is shown, and whether that is somebody else's than the person's. */
export type Actor = { viewer: User | undefined; isImpersonating: boolean };
/** The user that an administrator acts on. */
export type Target = Pick<AdminUser, "id" | "role">;
/** Why something is refused, as a sentence; undefined if it is not. */
type Rule = (actor: Actor, target?: Target) => MessageKey | undefined;

const byOwner: Rule = ({ isImpersonating }) =>
  isImpersonating ? "errors.IMPERSONATING" : undefined;

const byAdmin: Rule = (actor) =>
  byOwner(actor) ?? (actor.viewer?.role === "admin" ? undefined : "errors.FORBIDDEN");

const toOthers: Rule = (actor, target) =>
  byAdmin(actor) ?? (target?.id === actor.viewer?.id ? "errors.SELF_TARGETED" : undefined);

/** A stolen access token is not to take over an administrator's account. */
const toAccess: Rule = (actor, target) => {
  if (target?.role !== "admin") return byAdmin(actor);
  const isOwn = target.id === actor.viewer?.id;
  return byAdmin(actor) ?? (isOwn ? "refused.ownAccess" : "refused.administratorAccess");
};

const toOrdinary: Rule = (actor, target) =>
  toOthers(actor, target) ?? (target?.role === "admin" ? "refused.impersonateAdmin" : undefined);

/**
 * Who may do what beside reading, as the API decides it (`docs/rest.md`): by its method, and where
 * one method changes several things, by what changes.
 */
const RULES = {
  updateProfile: byOwner,
  changePassword: byOwner,
  changeEmail: byOwner,
  setupTotp: byOwner,
  disableTotp: byOwner,
  createBackupCodes: byOwner,
  revokeSession: byOwner,
  revokeOtherSessions: byOwner,
  exportData: byOwner,
  deleteAccount: byOwner,
  /** All pages for administrators, and what they do where nothing below says more. */
  administration: byAdmin,
  "updateUser.role": toOthers,
  "updateUser.access": toAccess,
  deleteUser: toOthers,
  impersonate: toOrdinary,
} satisfies Record<string, Rule>;

/** Something that a page offers. */
export type Action = keyof typeof RULES;
export const ACTIONS = Object.keys(RULES) as Action[];

/**
 * What may be offered to whom. The API decides again: a page only offers nothing that is certain to
 * be refused.
 * @returns the reason of the refusal, as a key of the catalogue; undefined if it may be offered
 */
export const refusalOf = (action: Action, actor: Actor, target?: Target): MessageKey | undefined =>
  (RULES[action] as Rule)(actor, target);
