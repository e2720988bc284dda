import type { CallerKey } from "./store/api-keys.ts";
import type { CallerUser, FoundSession } from "./store/sessions.ts";

/** Who makes a call, and how they proved it. */
export type Principal = SessionPrincipal | KeyPrincipal | SystemPrincipal;

/**
 * A user who has presented the access token of a session. `authenticatedAt`: when the user last
 * signed in to it or confirmed it.
 */
export type SessionPrincipal = { kind: "session"; authenticatedAt: Date } & FoundSession;

/**
 * A user or a service account, authenticated by an API key. Impersonation by key does not exist.
 */
export type KeyPrincipal = {
  kind: "api-key";
  user: CallerUser;
  key: CallerKey;
  actorId: undefined;
};

/** The service itself: at startup, in a job, or for an operator at the command line. */
export type SystemPrincipal = { kind: "system"; reason: string };

/**
 * A principal that acts for a user. Only operations that manage sessions or depend on the time of
 * the sign-in require a `SessionPrincipal`.
 */
export type UserPrincipal = Extract<Principal, { user: CallerUser }>;

/** The user that a principal acts for; undefined for the system and for public methods. */
export const userOf = (principal: Principal | undefined): CallerUser | undefined =>
  principal?.kind === "system" ? undefined : principal?.user;

/** The user responsible for an action: the impersonating administrator, otherwise the user. */
export const responsibleId = (principal: Principal | undefined): string | undefined =>
  principal?.kind === "system" ? undefined : (principal?.actorId ?? principal?.user.id);
