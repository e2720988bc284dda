import type { FastifyRequest } from "fastify";
import { decodeJwt } from "jose/jwt/decode";
import {
  type TokenDeps,
  type VerificationKeys,
  verifyToken,
} from "../../services/platform/gate/access-token.ts";
import type { CookieField } from "./binding.ts";

/** The token that a request carries in a cookie. */
export type TokenCookie = CookieField & {
  /** Empty if the request has no such cookie, or has several and it is unclear which one counts. */
  token: string;
  /** Whether there are several cookies with this name, but not exactly one that verifies. */
  isAmbiguous: boolean;
};

/**
 * Dependencies for verifying refresh tokens. Without keys, as in tests, several cookies count as
 * none.
 */
export type CookieDeps = Omit<TokenDeps, "keys"> & { keys: VerificationKeys | undefined };

declare module "fastify" {
  interface FastifyRequest {
    /** The cookies that the method uses, once they have been read. */
    tokenCookies?: readonly TokenCookie[];
  }
}

/**
 * Reads the cookies for a method. A sibling site may set a cookie with the same name for the parent
 * domain (RFC 6265 section 8.6). Therefore, of several cookies, the one that verifies is used,
 * provided there is only one. Tokens that exist only as cookies can only be verified by the
 * services, which get all values, separated by spaces.
 * @throws ServiceError UNAVAILABLE if the keys can't be loaded
 */
export async function readTokenCookies(
  fields: readonly CookieField[],
  { headers }: FastifyRequest,
  deps: CookieDeps,
): Promise<TokenCookie[]> {
  return Promise.all(
    fields.map(async (field) => {
      const sent = cookieValues(headers.cookie ?? "", field.cookie);
      const [only = ""] = sent;
      if (sent.length <= 1) return { ...field, token: only, isAmbiguous: false };
      if (field.isOnly) return { ...field, token: sent.join(" "), isAmbiguous: false };
      const [verified, ...others] = await verifiedTokens(sent, deps);
      const isAmbiguous = verified === undefined || others.length > 0;
      return { ...field, token: isAmbiguous ? "" : verified, isAmbiguous };
    }),
  );
}

/** A cookie's value, which some clients quote: those of Java's standard library (RFC 2965). */
const QUOTED = /^"(.*)"$/;

/** The distinct values of all cookies with the given name. Tokens need no decoding. */
function cookieValues(header: string, name: string): string[] {
  const pairs = header.split(";").map((pair) => /^([^=]*)=(.*)$/s.exec(pair) ?? []);
  const values = pairs
    .filter(([, key = ""]) => key.trim() === name)
    .map(([, , value = ""]) => value.trim().replace(QUOTED, "$1"));
  return [...new Set(values)];
}

/** The values that are unexpired refresh tokens of this service. */
async function verifiedTokens(values: string[], { keys, ...deps }: CookieDeps): Promise<string[]> {
  if (!keys) return [];
  const { publicUrl } = deps.config;
  const tokens = values.filter((value) => issuerOf(value) === publicUrl); // do not load keys for tokens of other issuers
  const claims = await Promise.all(
    tokens.map((token) => verifyToken({ ...deps, keys }, "refresh", token)),
  );
  return tokens.filter((_token, i) => claims[i] !== undefined);
}

/** The issuer claimed in a JWT; undefined for any other text. */
function issuerOf(value: string): string | undefined {
  try {
    return decodeJwt(value).iss;
  } catch {
    return undefined;
  }
}
