import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { WaysIn } from "../accounts/ways-in.ts";
import type { Call, SessionCall } from "../call.ts";
import type { Passkey } from "../store/passkeys.ts";
import type { CallerUser, ListedSession } from "../store/sessions.ts";
import type { User } from "../store/users.ts";

/** A row as a message: times become timestamps, null values are absent. */
type Message<Row> = {
  [Column in keyof Row]?: NonNullable<Row[Column]> extends Date
    ? Timestamp
    : NonNullable<Row[Column]>;
};

/** Maps a row to a message with the same field names. */
export function toMessage<Row extends object>(row: Row): Message<Row> {
  const fields = Object.entries(row).filter(([, value]) => value !== null && value !== undefined);
  const message = fields.map(([name, value]) => [
    name,
    value instanceof Date ? timestampFromDate(value) : value,
  ]);
  return Object.fromEntries(message) as Message<Row>;
}

/** An account as shown in its profile. */
export function profileOf(user: CallerUser, { passwordMaxAgeMs }: Call["config"]) {
  // Not a spread of the user: three of these are getters of an entity, which a copy would lack.
  const {
    id,
    email,
    name,
    bio,
    role,
    emailVerified,
    mfaEnabled,
    mfaConfirmed,
    secondFactor,
    locale,
    metadata,
    hasPassword,
    passwordChangedAt,
    createdAt,
    updatedAt,
  } = user;
  const passwordExpiresAt =
    hasPassword && passwordMaxAgeMs > 0
      ? new Date(passwordChangedAt.getTime() + passwordMaxAgeMs)
      : null;
  return toMessage({
    id,
    email,
    name,
    bio,
    role,
    emailVerified,
    mfaEnabled,
    mfaConfirmed: mfaEnabled ? mfaConfirmed : null,
    secondFactorRequired: secondFactor ? true : null,
    locale,
    metadata,
    createdAt,
    updatedAt,
    passwordExpiresAt,
  });
}

/**
 * Maps a session to its message. The caller's own session is active now, whatever was last written.
 */
export function sessionMessage(
  { isImpersonation, lastActiveAt, ...session }: ListedSession,
  { principal, clock }: Pick<SessionCall, "principal" | "clock">,
) {
  const current = session.id === principal.session.id;
  const lastActive = current ? clock.now() : lastActiveAt;
  return toMessage({
    ...session,
    lastActive,
    current,
    impersonated: isImpersonation ? true : null,
  });
}

/** Maps the ways in of an account to their message. */
export const waysInMessage = (
  { password, passkeys, identities, emailCode }: WaysIn,
  { secondFactor }: Pick<User, "secondFactor">,
) => ({
  hasPassword: password > 0,
  passkeys,
  identities,
  emailCode: emailCode > 0,
  secondFactorRequired: secondFactor,
});

/** Maps a passkey to its message. */
export const passkeyMessage = ({
  id,
  name,
  createdAt,
  lastUsedAt,
  backedUp,
  transports,
}: Passkey) =>
  toMessage({ id, name, createdAt, lastUsedAt, synced: backedUp, device: deviceKind(transports) });

/**
 * Where a passkey is kept, by how its authenticator is reached (WebAuthn level 3, section 5.8.4).
 */
function deviceKind(transports: readonly string[]): string {
  if (transports.includes("internal")) return "platform";
  if (["usb", "nfc", "ble", "smart-card"].some((each) => transports.includes(each)))
    return "security-key";
  return transports.includes("hybrid") ? "phone" : "unknown";
}
