import { domainToASCII } from "node:url";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { invalid, Refusal } from "../refusal.ts";

/** Longest address, in characters (RFC 5321 section 4.5.3.1). */
const MAX_LENGTH = 254;

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
 * @throws Refusal VALIDATION_FAILED
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
  const [local, domain] = [stored.slice(0, at), domainToASCII(stored.slice(at + 1))];
  const printable = /^[\x21-\x7e]+$/;
  const canonical = `${local.toLowerCase()}@${domain.toLowerCase()}`;
  const valid =
    at > 0 && printable.test(local) && domain.includes(".") && printable.test(domain) && stored.length <= MAX_LENGTH;
  return valid && canonical.length <= MAX_LENGTH ? { stored, canonical } : undefined;
}

/** The answer to an address that another account has. */
export function emailTaken(): Refusal {
  return new Refusal(Reason.EMAIL_TAKEN, "An account with this e-mail address already exists.");
}
