import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Call, SignedInCall } from "../call.ts";
import type { CallerUser, ListedSession } from "../store/sessions.ts";

/** An account as its profile shows it (spec section 2.1). */
export function profileOf(user: CallerUser, { passwordMaxAgeMs }: Call["config"]) {
  const expiresAt = new Date(user.passwordChangedAt.getTime() + passwordMaxAgeMs);
  return {
    id: user.id,
    email: user.email,
    name: user.name,
    ...(user.bio != null && { bio: user.bio }),
    role: user.role,
    emailVerified: user.emailVerified,
    mfaEnabled: user.mfaEnabled,
    createdAt: timestampFromDate(user.createdAt),
    updatedAt: timestampFromDate(user.updatedAt),
    ...(passwordMaxAgeMs > 0 && { passwordExpiresAt: timestampFromDate(expiresAt) }),
  };
}

/** Maps a session to its message. The caller's own is in use now, whatever has been written so far. */
export function sessionMessage(row: ListedSession, { caller, clock }: Pick<SignedInCall, "caller" | "clock">) {
  const current = row.id === caller.session.id;
  return {
    id: row.id,
    device: row.device,
    ip: row.ip,
    ...(row.location != null && { location: row.location }),
    createdAt: timestampFromDate(row.createdAt),
    lastActive: timestampFromDate(current ? clock.now() : row.lastActiveAt),
    current,
    ...(row.isImpersonation && { impersonated: true }),
  };
}
