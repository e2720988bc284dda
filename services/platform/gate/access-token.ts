import { setTimeout as wait } from "node:timers/promises";
import { importJWK, type JWTPayload, jwtVerify } from "jose";
import { validate as isUuid } from "uuid";
import type { Clock } from "../process/clock.ts";
import { AWAY_MESSAGE, ServiceError, unavailable } from "../rpc/errors.ts";

/** The kinds of signed tokens. Each is refused where another is expected. */
export type TokenKind = "access" | "refresh" | "mfa";

/** The session that an access or refresh token names (spec section 2.3). */
export type SessionClaims = { userId: string; sessionId: string; generation: number };

/** The key with this public part, in base64url (RFC 8037). */
export const importPublicKey = (x: string) => importJWK({ kty: "OKP", crv: "Ed25519", x }, "EdDSA");

export type PublicKey = Awaited<ReturnType<typeof importPublicKey>>;

/** The keys that tokens are verified with. */
export type VerificationKeys = {
  /**
   * The key of this id; undefined if it does not exist. Rejects if the keys can't be loaded.
   * @param admitWait admits a wait until the keys have been loaded again
   */
  verificationKey(kid: string, admitWait?: AdmitWait): Promise<PublicKey | undefined>;
  /**
   * Claims of tokens that this process has signed or verified, by the text of the token. Another
   * map once a key is withdrawn.
   */
  readonly verifiedTokens: Map<string, JWTPayload>;
  /** Called when a token that was verified here is refused elsewhere: its key may be withdrawn. */
  recheck?(): void;
};

/**
 * Admits a wait.
 * @returns a function that ends it
 * @throws ServiceError TOO_MANY_CONCURRENT
 */
export type AdmitWait = () => () => void;

export type TokenDeps = {
  config: { publicUrl: string };
  keys: VerificationKeys;
  clock: Clock;
  /** By default all may wait. */
  admitWait?: AdmitWait;
};

/** Maximum number of cached tokens; the oldest is removed first. */
const MAX_VERIFIED_TOKENS = 10_000;
/** Minimum interval between two loads of the keys for an unknown key id, in ms. */
const RELOAD_INTERVAL_MS = 1_000;

/**
 * Each kind has an audience of its own, so that a verifier which checks only `aud` rejects the
 * others.
 */
export const audienceOf = (kind: TokenKind): string =>
  kind === "access" ? "gatehouse" : `gatehouse:${kind}`;

/**
 * The claims of the access token in an Authorization header (RFC 6750 section 2.1); undefined
 * unless it is valid.
 */
export async function readBearerToken(
  deps: TokenDeps,
  authorization: string | undefined,
): Promise<SessionClaims | undefined> {
  const token = bearerToken(authorization);
  return token === undefined ? undefined : sessionClaims(await verifyToken(deps, "access", token));
}

const bearerToken = (authorization = "") => /^bearer +([\w.~+/-]+=*) *$/i.exec(authorization)?.[1];

/**
 * Refuses the token of an Authorization header from now on, whatever its signature: its session has
 * ended.
 */
export function refuseBearerToken({ keys }: TokenDeps, authorization: string | undefined): void {
  const token = bearerToken(authorization);
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
 * Verifies signature, kind, issuer, audience and expiry. Undefined if any of them is wrong.
 * @throws ServiceError UNAVAILABLE if the key can't be loaded
 */
export async function verifyToken(
  deps: TokenDeps,
  kind: TokenKind,
  token: string,
): Promise<JWTPayload | undefined> {
  const { verifiedTokens } = deps.keys; // the map from before the check: a key may be withdrawn meanwhile
  const known = verifiedTokens.get(token);
  const claims = known ?? (await checkToken(deps, kind, token));
  if (claims?.type !== kind || (claims.exp as number) * 1000 <= deps.clock.now().getTime())
    return undefined;
  if (!known) rememberToken(verifiedTokens, token, claims);
  return claims;
}

/** Caches the claims of a valid token; none for a token that is refused. */
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

/** Whether the claims that identify rows have the right form. */
function hasValidClaims({ type, sub, jti, sid, gen }: JWTPayload): boolean {
  return type === "mfa" ? isId(sub) && isId(jti) : isId(sub) && isId(sid) && Number.isInteger(gen);
}

const isId = (claim: unknown) => typeof claim === "string" && isUuid(claim);

/**
 * The services' public keys in a gateway that runs apart. Fetched again for an unknown key id, and
 * when the services refuse a token that has passed here.
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
    recheck: () => void reload().catch(() => {}), // the next refusal tries again
    async verificationKey(kid, admitWait) {
      if (!keys.has(kid)) await reload(admitWait);
      return keys.get(kid);
    },
  };
}

/**
 * Makes a function that loads something again and resolves when a load that began after the call
 * has ended. Concurrent callers share a load. Loads begin at least a second apart: a caller waits,
 * so that tokens with made-up key ids cost one load a second and never turn a valid token with a
 * new key away.
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
