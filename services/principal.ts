import type { CallerUser, FoundSession } from "./store/sessions.ts";

/** Who makes a call, and how they proved it. */
export type Principal = SessionPrincipal | SystemPrincipal;

/** A user who has presented the access token of a session. */
export type SessionPrincipal = { kind: "session"; authenticatedAt: Date } & FoundSession;

/** The service itself: at startup, in a job, or for an operator at the command line. */
export type SystemPrincipal = { kind: "system"; reason: string };

/**
 * A principal that acts for a user. Only operations that manage sessions require a `SessionPrincipal`;
 * all others only see the user, the actor, and when the user signed in.
 */
export type UserPrincipal = Extract<Principal, { user: CallerUser }>;

/** The user that a principal acts for; undefined for the system and for public methods. */
export const userOf = (principal: Principal | undefined): CallerUser | undefined =>
  principal?.kind === "system" ? undefined : principal?.user;

/** The user responsible for an action: the impersonating administrator, otherwise the user. */
export const responsibleId = (principal: Principal | undefined): string | undefined =>
  principal?.kind === "system" ? undefined : (principal?.actorId ?? principal?.user.id);
