import { domainToASCII } from "node:url";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { SystemCall } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { invalid, ServiceError, type Violation } from "../platform/rpc/errors.ts";
import { addressForm } from "../platform/rpc/typed-text.ts";
import { deleteAttempts } from "../store/attempts.ts";
import type { Recipient } from "../store/emails.ts";
import { isDuplicate } from "../store/errors.ts";
import {
  invalidateOneTimeTokens,
  invalidateTokensButNotMe,
  keepNotMe,
} from "../store/one-time-tokens.ts";

/** Maximum length of an address, in characters (RFC 5321 section 4.5.3.1). */
const MAX_LENGTH = 254;
/**
 * The characters of a dot-atom (RFC 5322 section 3.2.3), because mail programs treat a comma or a
 * second @ as a separator of recipients. Dots may be anywhere, as in addresses from Japanese mobile
 * operators and in the fields of browsers (HTML, "valid e-mail address"). Only ASCII, so that
 * lower-casing gives the same result in every language and database. The rule `email_address` of
 * the proto accepts the same.
 */
const LOCAL_PART = /^[\w.!#$%&'*+/=?^`{|}~-]+$/;
/**
 * A host name with at least two labels (RFC 1123 section 2.1). Not an IP address, whose last label
 * is a number.
 */
const DOMAIN = /^(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)+(?!-|\d+$)[a-z0-9-]{2,63}(?<!-)$/i;

/**
 * `stored` is the address as entered, without invisible characters; mail is sent to it.
 * `canonical`, in lower case and Punycode, identifies the account.
 */
export type EmailAddress = { stored: string; canonical: string };

/**
 * Parses an address.
 * @param field JSON name, for the error message
 * @throws ServiceError VALIDATION_FAILED
 */
export function readEmailAddress(text: string, field = "email"): EmailAddress {
  const address = canonicalEmail(text);
  if (!address) throw invalid(field, "must be a valid e-mail address");
  return address;
}

/** Checks the address in a request, as part of its validation. */
export const checkEmail = (
  { email }: { email?: string | undefined },
  field = "email",
): Violation[] =>
  email === undefined || canonicalEmail(email)
    ? []
    : [{ field, message: "must be a valid e-mail address" }];

/** Parses an address. Returns undefined instead of throwing. */
export function canonicalEmail(text: string): EmailAddress | undefined {
  const stored = addressForm(text);
  if (stored.length > MAX_LENGTH) return undefined;
  const at = stored.lastIndexOf("@");
  const [local, typed] = [stored.slice(0, at), stored.slice(at + 1)];
  const domain = domainToASCII(typed); // parses a URL host, hence decodes percent signs
  const canonical = `${local.toLowerCase()}@${domain.toLowerCase()}`;
  const valid = at > 0 && LOCAL_PART.test(local) && !typed.includes("%") && DOMAIN.test(domain);
  return valid && canonical.length <= MAX_LENGTH ? { stored, canonical } : undefined;
}

/**
 * Cleans up after an account's address has changed: deletes the links and failed passwords of the
 * old address, and notifies its owner.
 * @param by who has changed the address. After a change from a session, the owner of the old
 * address can still undo an earlier sign-in, unless the device of the session was already known at
 * that time. After a change by an administrator they cannot, because somebody else may be reading
 * the mail of the old address.
 */
export async function leaveAddress(
  call: SystemCall,
  old: Recipient & { canonicalEmail: string },
  newEmail: string,
  by: { deviceId: string | null } | "administrator",
) {
  if (by !== "administrator") {
    await keepNotMe(call, old.id, by.deviceId);
    await invalidateTokensButNotMe(call, old.id);
    await invalidateOneTimeTokens(call, old.id, ["not-me"]); // that of the old address, if an older one is kept
  } else await invalidateOneTimeTokens(call, old.id);
  await deleteAttempts(call, old.canonicalEmail, "password");
  await queueEmail(call, old, "email-changed", { newEmail });
}

/** The error for an address that belongs to another account. */
export const emailTaken = () =>
  new ServiceError(Reason.EMAIL_TAKEN, "An account with this e-mail address already exists.");

/**
 * Runs a transaction that may change an account's address.
 * @throws ServiceError EMAIL_TAKEN
 */
export const withUniqueAddress = <T>({ em }: SystemCall, work: () => Promise<T>): Promise<T> =>
  em.transactional(work).catch((error) => {
    throw isDuplicate(error, "users_canonical_email_unique") ? emailTaken() : error;
  });
