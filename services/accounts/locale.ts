import { invalid } from "../platform/rpc/errors.ts";

/** Maximum length of a language tag, in characters (RFC 5646 section 4.4.1). */
const MAX_LENGTH = 35;

/**
 * Reads the language of a user, a BCP 47 tag, and returns its canonical form: `de-at` becomes
 * `de-AT`.
 * @throws ServiceError VALIDATION_FAILED
 */
export function readLocale(tag: string | undefined): string | undefined {
  if (tag === undefined) return undefined;
  const canonical = canonicalTag(tag);
  if (canonical === undefined || canonical.length > MAX_LENGTH)
    // the canonical form may be longer
    throw invalid("locale", "must be a language tag, such as de or en-GB");
  return canonical;
}

function canonicalTag(tag: string): string | undefined {
  try {
    return Intl.getCanonicalLocales(tag)[0];
  } catch {
    return undefined;
  }
}
