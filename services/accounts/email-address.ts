import { domainToASCII } from "node:url";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { SystemCall } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { invalid, ServiceError, type Violation } from "../platform/rpc/errors.ts";
import { addressForm } from "../platform/rpc/typed-text.ts";
import { deleteAttempts } from "../store/attempts.ts";
import type { Recipient } from "../store/emails.ts";
import { isDuplicate } from "../store/errors.ts";
import { invalidateOneTimeTokens } from "../store/one-time-tokens.ts";

/** Maximum length of an address, in characters (RFC 5321 section 4.5.3.1). */
const MAX_LENGTH = 254;
/** ASCII, so that lower case means the same in every language and database. */
const LOCAL_PART = /^[\x21-\x7e]+$/;
/**
 * A host name of two labels or more (RFC 1123 section 2.1), and no IP address, whose last label is
 * a number.
 */
const DOMAIN = /^(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)+(?!-|\d+$)[a-z0-9-]{2,63}(?<!-)$/i;

/**
 * An address as typed, without invisible characters, which mail is sent to, and in lower case and
 * punycode, which identifies the account.
 */
export type EmailAddress = { stored: string; canonical: string };

/**
 * Reads an address.
 * @param field JSON name, for the error
 * @throws ServiceError VALIDATION_FAILED
 */
export function readEmailAddress(text: string, field = "email"): EmailAddress {
  const address = canonicalEmail(text);
  if (!address) throw invalid(field, "must be a valid e-mail address");
  return address;
}

/** Checks the address of a request as a part of its validation. */
export const checkEmail = (
  { email }: { email?: string | undefined },
  field = "email",
): Violation[] =>
  email === undefined || canonicalEmail(email)
    ? []
    : [{ field, message: "must be a valid e-mail address" }];

/** The same, but undefined instead of an error: for counting. */
export function canonicalEmail(text: string): EmailAddress | undefined {
  const stored = addressForm(text);
  const at = stored.lastIndexOf("@");
  const [local, typed] = [stored.slice(0, at), stored.slice(at + 1)];
  const domain = domainToASCII(typed); // parses it as the host of a URL, which would decode a percent sign
  const canonical = `${local.toLowerCase()}@${domain.toLowerCase()}`;
  const valid = at > 0 && LOCAL_PART.test(local) && !typed.includes("%") && DOMAIN.test(domain);
  return valid && stored.length <= MAX_LENGTH && canonical.length <= MAX_LENGTH
    ? { stored, canonical }
    : undefined;
}

/**
 * Gives up the address of an account for a new one: its links and its failed passwords go, and its
 * owner is notified.
 */
export async function leaveAddress(
  call: SystemCall,
  old: Recipient & { canonicalEmail: string },
  newEmail: string,
) {
  await invalidateOneTimeTokens(call, old.id);
  await deleteAttempts(call, old.canonicalEmail, "password");
  await queueEmail(call, old, "email-changed", { newEmail });
}

/** The error for an address of another account. */
export const emailTaken = () =>
  new ServiceError(Reason.EMAIL_TAKEN, "An account with this e-mail address already exists.");

/**
 * Runs a transaction that may give an account another address.
 * @throws ServiceError EMAIL_TAKEN
 */
export const withUniqueAddress = <T>({ em }: SystemCall, work: () => Promise<T>): Promise<T> =>
  em.transactional(work).catch((error) => {
    throw isDuplicate(error, "users_canonical_email_unique") ? emailTaken() : error;
  });
