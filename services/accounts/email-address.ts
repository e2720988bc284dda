import { domainToASCII } from "node:url";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { invalid, ServiceError } from "../platform/errors.ts";
import { isDuplicate } from "../store/errors.ts";

/** Longest address, in characters (RFC 5321 section 4.5.3.1). */
const MAX_LENGTH = 254;
const LOCAL_PART = /^[\x21-\x7e]+$/;
/** Two labels or more, as host names have them (RFC 1123 section 2.1). */
const DOMAIN = /^(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)+(?!-)[a-z0-9-]{2,63}(?<!-)$/i;

/** An e-mail address: where mail goes, and what makes it the same account. */
export type EmailAddress = {
  /** As typed, trimmed. */
  stored: string;
  /** Lower case, domain in punycode: unique. */
  canonical: string;
};

/**
 * Reads an address whose shape the proto's rule has checked already.
 * The local part is ASCII, so that lower case means the same in every language and database.
 * @param field JSON name, for the refusal.
 * @throws ServiceError VALIDATION_FAILED
 */
export function readEmailAddress(text: string, field = "email"): EmailAddress {
  const address = canonicalEmail(text);
  if (!address) throw invalid(field, "must be a valid e-mail address");
  return address;
}

/** The same, or undefined: for those who only count by it. */
export function canonicalEmail(text: string): EmailAddress | undefined {
  const stored = text.trim();
  const at = stored.lastIndexOf("@");
  const [local, typed] = [stored.slice(0, at), stored.slice(at + 1)];
  const domain = domainToASCII(typed); // reads it as the host of a URL, which would decode a percent sign
  const canonical = `${local.toLowerCase()}@${domain.toLowerCase()}`;
  const valid = at > 0 && LOCAL_PART.test(local) && !typed.includes("%") && DOMAIN.test(domain);
  return valid && stored.length <= MAX_LENGTH && canonical.length <= MAX_LENGTH ? { stored, canonical } : undefined;
}

/** The answer to an address that another account has. */
export function emailTaken(): ServiceError {
  return new ServiceError(Reason.EMAIL_TAKEN, "An account with this e-mail address already exists.");
}

/** What to throw of an error: EMAIL_TAKEN where it means that another account has the address, or else itself. */
export function emailTakenOr(error: unknown): unknown {
  return isDuplicate(error, "users_canonical_email_unique") ? emailTaken() : error;
}
