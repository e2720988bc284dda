import type { CallerUser, FoundSession } from "./store/sessions.ts";

/** Who makes a call, and how they proved it. */
export type Principal = SessionPrincipal | SystemPrincipal;

/** A user who has sent the access token of a session. */
export type SessionPrincipal = { kind: "session"; authenticatedAt: Date } & FoundSession;

/** The service itself: its start, a job, or an operator at the command line. */
export type SystemPrincipal = { kind: "system"; reason: string };

/**
 * A principal that acts for a user. Only operations that manage sessions ask for a
 * `SessionPrincipal`; all others know the user, the actor, and when the user signed in.
 */
export type UserPrincipal = Extract<Principal, { user: CallerUser }>;

/** The user that a principal acts for; undefined for the system and for public methods. */
export const userOf = (principal: Principal | undefined): CallerUser | undefined =>
  principal?.kind === "system" ? undefined : principal?.user;

/** Who is responsible for what a principal does: an impersonating administrator, else the user. */
export const responsibleId = (principal: Principal | undefined): string | undefined =>
  principal?.kind === "system" ? undefined : (principal?.actorId ?? principal?.user.id);
