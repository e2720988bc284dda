import type { User } from "../store/user.ts";

/** The session of a call, and who it belongs to: read in one round trip with every authenticated request. */
export type Caller = {
  user: CallerUser;
  session: { id: string; createdAt: Date };
  /** The administrator who impersonates the user. */
  actorId: string | undefined;
};

/** The caller's account as it stood when the call began. */
export type CallerUser = Pick<
  User,
  | "id"
  | "email"
  | "name"
  | "bio"
  | "role"
  | "emailVerified"
  | "mfaEnabled"
  | "passwordChangedAt"
  | "createdAt"
  | "updatedAt"
>;
