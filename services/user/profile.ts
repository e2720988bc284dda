import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Call } from "../call.ts";
import type { CallerUser } from "../store/sessions.ts";

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
