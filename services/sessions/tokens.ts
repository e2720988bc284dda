import { sign as signBytes } from "node:crypto";
import { decodeProtectedHeader, type JWTPayload, jwtVerify } from "jose";
import { validate as isUuid } from "uuid";
import type { AppContext, Call } from "../call.ts";
import type { Session } from "../store/sessions.ts";
import type { User } from "../store/users.ts";

/** The kinds of signed tokens; each is refused wherever another is expected. */
type Kind = "access" | "refresh" | "mfa";

/** What an access or refresh token says of its session (spec section 2.3). */
export type SessionClaims = { userId: string; sessionId: string; generation: number };

/** Tokens of one sign-in or refresh. */
export type TokenPair = { accessToken: string; refreshToken: string };

/** The parts of a session that its tokens are made of. */
export type TokenSession = Pick<Session, "id" | "generation" | "rotatedAt" | "expiresAt" | "actorId">;
type TokenUser = Pick<User, "id" | "email" | "role">;

/** A token is remembered by its whole text once it was signed here or verified; the oldest goes. */
const REMEMBERED_TOKENS = 10_000;

type Signing = Pick<AppContext, "config" | "keys">;

/** An audience of its own for each kind: a verifier that knows only `aud` refuses the others too. */
function audience(kind: Kind): string {
  return kind === "access" ? "gatehouse" : `gatehouse:${kind}`;
}

const seconds = (time: Date) => Math.floor(time.getTime() / 1000);

/** Rebuilds the tokens of a session's present generation: the same row gives the same text, so nothing has to be stored. */
export function createTokenPair(call: Signing, session: TokenSession, user: TokenUser): TokenPair {
  return {
    accessToken: createAccessToken(call, session, user),
    refreshToken: signJwt(call, "refresh", session.rotatedAt, session.expiresAt, user.id, {
      jti: tokenId("refresh", session),
      sid: session.id,
      gen: session.generation,
    }),
  };
}

/** The access token of a session's present generation; under impersonation it names the actor (RFC 8693 section 4.1). */
export function createAccessToken(call: Signing, session: TokenSession, user: TokenUser): string {
  const expiresAt = new Date(
    Math.min(session.rotatedAt.getTime() + call.config.accessTokenMs, session.expiresAt.getTime()),
  );
  return signJwt(call, "access", session.rotatedAt, expiresAt, user.id, {
    email: user.email,
    role: user.role,
    jti: tokenId("access", session),
    sid: session.id,
    gen: session.generation,
    ...(session.actorId && { act: { sub: session.actorId } }),
  });
}

/** Signs the MFA token of a login that waits for its second factor. */
export function createMfaToken(
  call: Signing,
  mfaToken: { id: string; userId: string; createdAt: Date; expiresAt: Date },
) {
  return signJwt(call, "mfa", mfaToken.createdAt, mfaToken.expiresAt, mfaToken.userId, { jti: mfaToken.id });
}

/** Reads an access token; undefined when it is not one of ours, or has expired. */
export async function readAccessToken(call: Verifying, token: string): Promise<SessionClaims | undefined> {
  return sessionClaims(await verify(call, "access", token));
}

/** Reads a refresh token; undefined when it is not one of ours, or has expired. */
export async function readRefreshToken(call: Verifying, token: string): Promise<SessionClaims | undefined> {
  return sessionClaims(await verify(call, "refresh", token));
}

/** Reads an MFA token; undefined when it is not one of ours, or has expired. */
export async function readMfaToken(
  call: Verifying,
  token: string,
): Promise<{ id: string; userId: string } | undefined> {
  const claims = await verify(call, "mfa", token);
  return claims && { id: claims.jti as string, userId: claims.sub as string };
}

type Verifying = Pick<Call, "config" | "keys" | "clock">;

function sessionClaims(claims: JWTPayload | undefined): SessionClaims | undefined {
  return claims && { userId: claims.sub as string, sessionId: claims.sid as string, generation: claims.gen as number };
}

/**
 * A JWT in compact serialization (RFC 7515 section 3.1), signed by Ed25519 (RFC 8037) on the spot: the signature takes
 * less than the way to another thread and back.
 */
function signJwt(
  call: Signing,
  type: Kind,
  issuedAt: Date,
  expiresAt: Date,
  subject: string,
  claims: JWTPayload,
): string {
  const { kid, privateKey } = call.keys.signingKeyAt(issuedAt);
  const payload = {
    ...claims,
    type,
    sub: subject,
    iss: call.config.publicUrl,
    aud: audience(type),
    iat: seconds(issuedAt),
    exp: seconds(expiresAt),
  };
  const signed = `${encode({ alg: "EdDSA", typ: "JWT", kid })}.${encode(payload)}`;
  const token = `${signed}.${signBytes(null, Buffer.from(signed), privateKey).toString("base64url")}`;
  remember(call, token, payload); // most tokens come back to the process that signed them
  return token;
}

const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");

async function verify(call: Verifying, type: Kind, token: string): Promise<JWTPayload | undefined> {
  const now = call.clock.now();
  const known = call.keys.verifiedTokens.get(token);
  const claims = known ?? (await check(call, type, token, now));
  if (claims?.type !== type || (claims.exp as number) * 1000 <= now.getTime()) return undefined;
  if (!known) remember(call, token, claims);
  return claims;
}

function remember({ keys: { verifiedTokens } }: Pick<Signing, "keys">, token: string, claims: JWTPayload): void {
  verifiedTokens.set(token, claims);
  if (verifiedTokens.size > REMEMBERED_TOKENS) verifiedTokens.delete(verifiedTokens.keys().next().value as string);
}

/** @throws Error when the database, which may know the token's key, can't be asked */
async function check(call: Verifying, type: Kind, token: string, now: Date): Promise<JWTPayload | undefined> {
  const kid = keyIdOf(token);
  const key = kid === undefined ? undefined : await call.keys.verificationKey(kid);
  if (!key) return undefined;
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: ["EdDSA"],
      issuer: call.config.publicUrl,
      audience: audience(type),
      requiredClaims: ["sub", "iat", "exp", "jti"],
      currentDate: now,
    });
    return hasValidClaims(payload) ? payload : undefined;
  } catch {
    return undefined;
  }
}

/** The key that a token says it is signed with. */
function keyIdOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).kid;
  } catch {
    return undefined;
  }
}

/** Whether the claims that rows are found by are what they should be. */
function hasValidClaims({ type, sub, jti, sid, gen }: JWTPayload): boolean {
  return type === "mfa" ? isId(sub) && isId(jti) : isId(sub) && isId(sid) && Number.isInteger(gen);
}

function isId(claim: unknown): boolean {
  return typeof claim === "string" && isUuid(claim);
}

/** Unique, and the same whenever the token is rebuilt. */
function tokenId(kind: Kind, { id, generation }: TokenSession): string {
  return `${kind}.${id}.${generation}`;
}
