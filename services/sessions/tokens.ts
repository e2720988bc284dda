import { sign as signBytes } from "node:crypto";
import type { JWTPayload } from "jose";
import type { AppContext } from "../call.ts";
import {
  audienceOf,
  rememberToken,
  type SessionClaims,
  sessionClaims,
  type TokenDeps,
  type TokenKind,
  verifyToken,
} from "../platform/gate/access-token.ts";
import type { IssuedToken } from "../store/one-time-tokens.ts";
import type { Session, SignInMethod } from "../store/sessions.ts";
import type { User } from "../store/users.ts";

export type TokenPair = { accessToken: string; refreshToken: string };

export type TokenSession = Pick<
  Session,
  "id" | "generation" | "rotatedAt" | "expiresAt" | "actorId" | "methods" | "createdAt"
>;
type TokenUser = Pick<User, "id" | "email" | "role" | "metadata">;

type Signing = Pick<AppContext, "config" | "keys">;

/**
 * Rebuilds the tokens of a session's current generation. The same row yields the same tokens, so
 * they are not stored.
 */
export function createTokenPair(call: Signing, session: TokenSession, user: TokenUser): TokenPair {
  const { rotatedAt, expiresAt } = session;
  return {
    accessToken: createAccessToken(call, session, user),
    refreshToken: signJwt(call, claimsOf("refresh", session, user), rotatedAt, expiresAt),
  };
}

/** The values of `amr` for what proved a sign-in (RFC 8176). Others have none. */
const REFERENCES: Partial<Record<SignInMethod, string[]>> = {
  password: ["pwd"],
  totp: ["otp"],
  "backup-code": ["otp"],
  passkey: ["pop"],
};

/** Whether proofs are two factors: several of them, or a passkey, which verifies its user. */
const isMultiFactor = (methods: readonly SignInMethod[]) =>
  methods.length > 1 || methods.includes("passkey");

/**
 * How and when the user signed in, in seconds (OpenID Connect Core section 2). A confirmation does
 * not change it: the same row gives the same text. `amr` is absent where that is unknown.
 */
function authenticationOf({ methods, createdAt }: TokenSession) {
  const references = methods.flatMap((method) => REFERENCES[method] ?? []);
  const amr = [...new Set(references), ...(isMultiFactor(methods) ? ["mfa"] : [])];
  const auth_time = Math.floor(createdAt.getTime() / 1000);
  return { ...(amr.length > 0 && { amr }), auth_time };
}

/**
 * The access token of a session's current generation. Under impersonation it names the actor (RFC
 * 8693 section 4.1), and not how the user has signed in.
 */
export function createAccessToken(call: Signing, session: TokenSession, user: TokenUser): string {
  const { rotatedAt, expiresAt, actorId } = session;
  const end = Math.min(rotatedAt.getTime() + call.config.accessTokenTtlMs, expiresAt.getTime());
  const proof = actorId ? { act: { sub: actorId } } : authenticationOf(session);
  const claims = {
    email: user.email,
    role: user.role,
    ...metadataOf(call, user),
    ...claimsOf("access", session, user),
    ...proof,
  };
  return signJwt(call, claims, rotatedAt, new Date(end));
}

/**
 * The chosen members of a user's metadata. They are in a separate claim, so that none replaces
 * another claim.
 */
function metadataOf({ config }: Signing, { metadata }: TokenUser) {
  const chosen = Object.entries(metadata ?? {}).filter(([name]) =>
    config.tokenMetadata.includes(name),
  );
  return chosen.length > 0 ? { metadata: Object.fromEntries(chosen) } : {};
}

/** Claims that identify the token and are identical when it is rebuilt. */
const claimsOf = (type: TokenKind, { id, generation }: TokenSession, user: TokenUser) => {
  return { jti: `${type}.${id}.${generation}`, sid: id, gen: generation, type, sub: user.id };
};

/** What the first step of a login was. */
export type FirstFactor = Extract<SignInMethod, "password" | "external" | "email-code">;

/** First steps that an MFA token names; it names no password. */
const OTHER_FACTORS: readonly FirstFactor[] = ["external", "email-code"];

/** Creates the MFA token of a login that is waiting for its second factor. */
export function createMfaToken(
  call: Signing,
  { id, userId, createdAt, expiresAt }: IssuedToken,
  method: FirstFactor,
): string {
  const first = method === "password" ? {} : { method };
  return signJwt(call, { jti: id, type: "mfa", sub: userId, ...first }, createdAt, expiresAt);
}

/** Reads a refresh token; undefined if it is invalid. */
export async function readRefreshToken(
  call: TokenDeps,
  token: string,
): Promise<SessionClaims | undefined> {
  return sessionClaims(await verifyToken(call, "refresh", token));
}

/** Reads an MFA token; undefined if it is invalid. */
export async function readMfaToken(call: TokenDeps, token: string) {
  const claims = await verifyToken(call, "mfa", token);
  if (!claims) return undefined;
  const method: FirstFactor = OTHER_FACTORS.find((each) => each === claims.method) ?? "password";
  return { id: claims.jti as string, userId: claims.sub as string, method };
}

/**
 * Creates a JWT in compact serialization (RFC 7515 section 3.1), signed with Ed25519 (RFC 8037) on
 * this thread: signing is faster than a round trip to another thread.
 */
function signJwt(
  call: Signing,
  claims: JWTPayload & { type: TokenKind },
  issuedAt: Date,
  expiresAt: Date,
): string {
  const { kid, privateKey } = call.keys.signingKeyAt(issuedAt);
  const payload = {
    ...claims,
    iss: call.config.publicUrl,
    aud: audienceOf(claims.type),
    iat: Math.floor(issuedAt.getTime() / 1000),
    exp: Math.floor(expiresAt.getTime() / 1000),
  };
  const signed = `${encode({ alg: "EdDSA", typ: "JWT", kid })}.${encode(payload)}`;
  const token = `${signed}.${signBytes(null, Buffer.from(signed), privateKey).toString("base64url")}`;
  rememberToken(call.keys.verifiedTokens, token, payload); // most tokens are used in the process that signed them
  return token;
}

const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
