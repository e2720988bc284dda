import { decodeProtectedHeader, importJWK, type JWTPayload, jwtVerify } from "jose";
import { validate as isUuid } from "uuid";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "./errors.ts";
import type { Clock } from "./process.ts";

/** The kinds of signed tokens. Each is refused where another is expected. */
export type TokenKind = "access" | "refresh" | "mfa";

/** The session that an access or refresh token names (spec section 2.3). */
export type SessionClaims = { userId: string; sessionId: string; generation: number };

export type PublicKey = Awaited<ReturnType<typeof importJWK>>;

/** What tokens are verified with. */
export type VerificationKeys = {
  /** The key of this id; undefined if no process has made it. Rejects if that can't be found out. */
  verificationKey(kid: string): Promise<PublicKey | undefined>;
  /** Claims of tokens that were signed here or verified, by the whole text of the token. */
  verifiedTokens: Map<string, JWTPayload>;
};

/** What verification needs. */
export type TokenDeps = { config: { publicUrl: string }; keys: VerificationKeys; clock: Clock };

/** Verified tokens that are kept; the oldest goes first. */
const MAX_VERIFIED_TOKENS = 10_000;
/** The services are asked for unknown keys at most this often, in ms. */
const REFETCH_INTERVAL_MS = 1_000;

/** Each kind has an audience of its own: a verifier that checks `aud` alone refuses the others too. */
export const audienceOf = (kind: TokenKind): string => (kind === "access" ? "gatehouse" : `gatehouse:${kind}`);

/** The claims of the access token in an Authorization header (RFC 6750 section 2.1); undefined unless it is valid. */
export async function readBearerToken(
  deps: TokenDeps,
  authorization: string | undefined,
): Promise<SessionClaims | undefined> {
  const token = /^bearer +([\w.~+/-]+=*) *$/i.exec(authorization ?? "")?.[1];
  return token === undefined ? undefined : sessionClaims(await verifyToken(deps, "access", token));
}

export function sessionClaims(claims: JWTPayload | undefined): SessionClaims | undefined {
  return claims && { userId: claims.sub as string, sessionId: claims.sid as string, generation: claims.gen as number };
}

/**
 * Verifies signature, kind, issuer, audience and expiry. Undefined if any of them is wrong.
 * @throws ServiceError UNAVAILABLE if the key can't be looked up at the moment
 */
export async function verifyToken(deps: TokenDeps, kind: TokenKind, token: string): Promise<JWTPayload | undefined> {
  const now = deps.clock.now();
  const known = deps.keys.verifiedTokens.get(token);
  const claims = known ?? (await checkToken(deps, kind, token, now));
  if (claims?.type !== kind || (claims.exp as number) * 1000 <= now.getTime()) return undefined;
  if (!known) rememberToken(deps.keys, token, claims);
  return claims;
}

/** Keeps the claims of a token that is known to be valid. */
export function rememberToken({ verifiedTokens }: VerificationKeys, token: string, claims: JWTPayload): void {
  verifiedTokens.set(token, claims);
  if (verifiedTokens.size > MAX_VERIFIED_TOKENS) verifiedTokens.delete(verifiedTokens.keys().next().value as string);
}

async function checkToken({ config, keys }: TokenDeps, kind: TokenKind, token: string, now: Date) {
  const kid = keyIdOf(token);
  if (kid === undefined) return undefined;
  const key = await keys.verificationKey(kid).catch(() => {
    throw new ServiceError(Reason.UNAVAILABLE, "The service is not available right now. Please try again shortly.", {
      retryAfterSeconds: 1,
    });
  });
  if (!key) return undefined;
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: ["EdDSA"],
      issuer: config.publicUrl,
      audience: audienceOf(kind),
      requiredClaims: ["sub", "iat", "exp", "jti"],
      currentDate: now,
    });
    return hasValidClaims(payload) ? payload : undefined;
  } catch {
    return undefined;
  }
}

function keyIdOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).kid;
  } catch {
    return undefined;
  }
}

/** Whether the claims that rows are found by have the right form. */
function hasValidClaims({ type, sub, jti, sid, gen }: JWTPayload): boolean {
  return type === "mfa" ? isId(sub) && isId(jti) : isId(sub) && isId(sid) && Number.isInteger(gen);
}

const isId = (claim: unknown) => typeof claim === "string" && isUuid(claim);

/** The services' public keys (RFC 8037), as a gateway in a process of its own holds them. */
export function createRemoteKeys(fetchKeys: () => Promise<{ kid: string; x: string }[]>): VerificationKeys {
  let keys = new Map<string, PublicKey>();
  let fetchedAt = Number.NEGATIVE_INFINITY;
  let fetched = Promise.resolve();
  const refetch = async () => {
    const published = await fetchKeys();
    const entries = published.map(
      async ({ kid, x }) => [kid, await importJWK({ kty: "OKP", crv: "Ed25519", x }, "EdDSA")] as const,
    );
    keys = new Map(await Promise.all(entries));
  };
  return {
    verifiedTokens: new Map(),
    async verificationKey(kid) {
      if (!keys.has(kid) && performance.now() - fetchedAt >= REFETCH_INTERVAL_MS) {
        fetchedAt = performance.now();
        fetched = refetch();
      }
      if (!keys.has(kid)) await fetched; // concurrent requests share one fetch
      return keys.get(kid);
    },
  };
}
