import { setTimeout as wait } from "node:timers/promises";
import { importJWK, type JWTPayload, jwtVerify } from "jose";
import { validate as isUuid } from "uuid";
import type { Clock } from "../process/clock.ts";
import { AWAY_MESSAGE, ServiceError, unavailable } from "../rpc/errors.ts";

/** Kinds of signed tokens. A token of one kind is rejected where another is expected. */
export type TokenKind = "access" | "refresh" | "mfa";

/** The session that an access or refresh token identifies. */
export type SessionClaims = { userId: string; sessionId: string; generation: number };

/** Imports a public key from its `x` parameter in base64url (RFC 8037). */
export const importPublicKey = (x: string) => importJWK({ kty: "OKP", crv: "Ed25519", x }, "EdDSA");

export type PublicKey = Awaited<ReturnType<typeof importPublicKey>>;

/** Keys for verifying tokens. */
export type VerificationKeys = {
  /**
   * Finds a key by its id; undefined if it does not exist. Rejects if the keys can't be loaded.
   * @param admitWait limits how many callers wait while keys are reloaded
   */
  verificationKey(kid: string, admitWait?: AdmitWait): Promise<PublicKey | undefined>;
  /**
   * Cached claims of tokens that this process has signed or verified, by token. Replaced by an
   * empty map when a key is withdrawn.
   */
  readonly verifiedTokens: Map<string, JWTPayload>;
  /**
   * Called when the services reject a token that was accepted here: its key may have been
   * withdrawn.
   */
  recheck?(): void;
};

/**
 * Admits a caller that has to wait.
 * @returns a function that ends the wait
 * @throws ServiceError TOO_MANY_CONCURRENT
 */
export type AdmitWait = () => () => void;

export type TokenDeps = {
  config: { publicUrl: string };
  keys: VerificationKeys;
  clock: Clock;
  /** By default, every caller may wait. */
  admitWait?: AdmitWait;
};

/** Maximum number of cached tokens; the oldest is removed first. */
const MAX_VERIFIED_TOKENS = 10_000;
/** Minimum interval between two reloads of the keys for unknown key ids, in ms. */
const RELOAD_INTERVAL_MS = 1_000;

/**
 * Each kind has its own audience, so that a verifier that only checks `aud` rejects the other
 * kinds.
 */
export const audienceOf = (kind: TokenKind): string =>
  kind === "access" ? "gatehouse" : `gatehouse:${kind}`;

/** Claims of an access token; undefined if it is missing or invalid. */
export async function readAccessToken(
  deps: TokenDeps,
  token: string | undefined,
): Promise<SessionClaims | undefined> {
  return token === undefined ? undefined : sessionClaims(await verifyToken(deps, "access", token));
}

/** The token in an Authorization header (RFC 6750 section 2.1): an access token or an API key. */
export const bearerTokenOf = (authorization = ""): string | undefined =>
  /^bearer +([\w.~+/-]+=*) *$/i.exec(authorization)?.[1];

/**
 * Rejects the access token of an Authorization header from now on, even if its signature is valid,
 * because its session has ended.
 */
export function refuseAccessToken({ keys }: TokenDeps, authorization: string | undefined): void {
  const token = bearerTokenOf(authorization);
  if (token === undefined) return;
  rememberToken(keys.verifiedTokens, token, {});
  keys.recheck?.();
}

export function sessionClaims(claims: JWTPayload | undefined): SessionClaims | undefined {
  return (
    claims && {
      userId: claims.sub as string,
      sessionId: claims.sid as string,
      generation: claims.gen as number,
    }
  );
}

/**
 * Verifies signature, kind, issuer, audience and expiry. Returns undefined if any of them is
 * invalid.
 * @throws ServiceError UNAVAILABLE if the key can't be loaded
 */
export async function verifyToken(
  deps: TokenDeps,
  kind: TokenKind,
  token: string,
): Promise<JWTPayload | undefined> {
  const { verifiedTokens } = deps.keys; // keep this map: it may be replaced during the check if a key is withdrawn
  const known = verifiedTokens.get(token);
  const claims = known ?? (await checkToken(deps, kind, token));
  if (claims?.type !== kind || (claims.exp as number) * 1000 <= deps.clock.now().getTime())
    return undefined;
  if (!known) rememberToken(verifiedTokens, token, claims);
  return claims;
}

/** Caches the claims of a valid token, or `{}` for a token that should be rejected. */
export function rememberToken(
  verifiedTokens: Map<string, JWTPayload>,
  token: string,
  claims: JWTPayload,
): void {
  verifiedTokens.set(token, claims);
  if (verifiedTokens.size > MAX_VERIFIED_TOKENS)
    verifiedTokens.delete(verifiedTokens.keys().next().value as string);
}

async function checkToken(deps: TokenDeps, kind: TokenKind, token: string) {
  const { config, keys, clock, admitWait } = deps;
  const findKey = async ({ kid }: { kid?: string }) => {
    const find = kid === undefined ? undefined : keys.verificationKey(kid, admitWait);
    const key = await find?.catch((error) => {
      throw error instanceof ServiceError ? error : unavailable(AWAY_MESSAGE);
    });
    if (!key) throw new Error("there is no such key");
    return key;
  };
  try {
    const { payload } = await jwtVerify(token, findKey, {
      algorithms: ["EdDSA"],
      issuer: config.publicUrl,
      audience: audienceOf(kind),
      requiredClaims: ["sub", "iat", "exp", "jti"],
      currentDate: clock.now(),
    });
    return hasValidClaims(payload) ? payload : undefined;
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    return undefined;
  }
}

/** Whether the claims that identify rows are well-formed. */
function hasValidClaims({ type, sub, jti, sid, gen }: JWTPayload): boolean {
  return type === "mfa" ? isId(sub) && isId(jti) : isId(sub) && isId(sid) && Number.isInteger(gen);
}

const isId = (claim: unknown) => typeof claim === "string" && isUuid(claim);

/**
 * The public keys of the services, for a standalone gateway. Reloaded for an unknown key id, and
 * when the services reject a token that was accepted here.
 */
export function createRemoteKeys(
  fetchKeys: () => Promise<{ kid: string; x: string }[]>,
): VerificationKeys {
  let keys = new Map<string, PublicKey>();
  let verifiedTokens = new Map<string, JWTPayload>();
  const reload = createReload(async () => {
    const imported = (await fetchKeys()).map(
      async ({ kid, x }) => [kid, await importPublicKey(x)] as const,
    );
    const loaded = new Map(await Promise.all(imported));
    if ([...keys.keys()].some((kid) => !loaded.has(kid))) verifiedTokens = new Map();
    keys = loaded;
  });
  return {
    get verifiedTokens() {
      return verifiedTokens;
    },
    recheck: () => void reload().catch(() => {}), // the next rejection tries again
    async verificationKey(kid, admitWait) {
      if (!keys.has(kid)) await reload(admitWait);
      return keys.get(kid);
    },
  };
}

/**
 * Creates a function that reloads something and resolves once a load that began after the call has
 * finished. Concurrent callers share a load. Loads start at least a second apart and callers wait
 * for theirs: tokens with made-up key ids cause at most one load per second, and a valid token with
 * a new key is never rejected.
 */
export function createReload(load: () => Promise<void>): (admitWait?: AdmitWait) => Promise<void> {
  let startedAt = Number.NEGATIVE_INFINITY;
  let running: Promise<void> | undefined;
  const run = async () => {
    const waitMs = startedAt + RELOAD_INTERVAL_MS - performance.now();
    if (waitMs > 0) await wait(waitMs);
    startedAt = performance.now();
    await load();
  };
  return async (admitWait) => {
    const calledAt = performance.now();
    const endWait = admitWait?.();
    try {
      while (startedAt < calledAt) {
        running ??= run().finally(() => {
          running = undefined;
        });
        await running;
      }
    } finally {
      endWait?.();
    }
  };
}
