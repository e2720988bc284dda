import { SignJWT } from "jose/jwt/sign";
import type * as library from "openid-client";
import { z } from "zod";
import type { Call } from "../call.ts";
import { OutboundError } from "../platform/outbound.ts";
import { ServiceError, unavailable } from "../platform/rpc/errors.ts";
import { DEADLINE_MS, discoveredOf, readDocument, readKeys } from "./discovery.ts";
import { type ExternalIdentity, externalFailed } from "./identity-token.ts";
import type { ClientSecret, ExternalProvider } from "./registry.ts";
import type { ExternalState } from "./state.ts";

type Deps = Pick<Call, "external" | "clock" | "config" | "signal" | "log" | "requestId">;
type Library = typeof library;

/** The response of a provider. */
export type ProviderAnswer = {
  code: string;
  state: string;
  iss?: string | undefined;
  /** Apple's JSON about a person, sent only with the first sign-in. */
  user?: string | undefined;
};

/** Lifetime of the client secret that we sign for Apple, in seconds. */
const SECRET_SECONDS = 300;
/** Maximum age of the sign-in at the provider for the purpose `prove`, in seconds. */
const MAX_AUTH_AGE_SECONDS = 300;
/** Tolerated difference of a provider's clock, in seconds. */
const SKEW_SECONDS = 60;
/** Maximum lengths of stored values (the subject is limited by OpenID Connect Core section 2). */
const [MAX_SUBJECT, MAX_ISSUER, MAX_EMAIL] = [255, 512, 254];

/** The redirect URI to register at a provider. */
export const callbackUrl = ({ publicUrl }: Pick<Call["config"], "publicUrl">, id: string): string =>
  `${publicUrl}/auth/external/${id}/callback`;

/**
 * The URL at which the user signs in with the provider: authorization code flow with PKCE, state
 * and nonce.
 * @param stateText the sealed state
 * @throws ServiceError UNAVAILABLE if the provider can't be reached or is misconfigured
 */
export async function authorizationUrl(
  call: Deps,
  provider: ExternalProvider,
  state: ExternalState,
  stateText: string,
): Promise<string> {
  const { calculatePKCECodeChallenge, buildAuthorizationUrl } = await loadLibrary();
  const { configuration } = await configurationOf(call, provider);
  const url = buildAuthorizationUrl(configuration, {
    redirect_uri: callbackUrl(call.config, provider.id),
    scope: provider.scopes,
    code_challenge: await calculatePKCECodeChallenge(state.verifier),
    code_challenge_method: "S256",
    state: stateText,
    ...(provider.kind !== "github" && { nonce: state.nonce }),
    ...(provider.kind === "apple" && { response_mode: "form_post" }), // Apple requires it with scopes
    ...(state.purpose === "prove" && { prompt: "login", max_age: String(MAX_AUTH_AGE_SECONDS) }),
  });
  return url.href;
}

/**
 * Exchanges the code in a response and reads the identity. The provider's tokens are not kept.
 * Complete the ceremony of the state first, so that a code is sent only once.
 * @throws ServiceError EXTERNAL_FAILED, UNAVAILABLE
 */
export async function exchangeCode(
  call: Deps,
  provider: ExternalProvider,
  { verifier, nonce, purpose }: ExternalState,
  { code, state, iss, user }: ProviderAnswer,
): Promise<ExternalIdentity> {
  const { authorizationCodeGrant } = await loadLibrary();
  const isGithub = provider.kind === "github";
  const answered = new URL(callbackUrl(call.config, provider.id));
  answered.searchParams.set("code", code);
  answered.searchParams.set("state", state);
  if (iss !== undefined && !isGithub) answered.searchParams.set("iss", iss);
  const { configuration, signal } = await configurationOf(call, provider);
  try {
    const tokens = await authorizationCodeGrant(configuration, answered, {
      pkceCodeVerifier: verifier,
      expectedState: state,
      ...(!isGithub && { expectedNonce: nonce, idTokenExpected: true }),
    });
    if (isGithub) return await readGithub(call, provider, tokens.access_token, signal);
    const identity = readClaims(call, provider, tokens.claims() ?? {}, purpose === "prove");
    if (provider.kind === "apple") identity.name ??= readAppleName(user);
    return identity;
  } catch (error) {
    report(call, provider, error);
    if (error instanceof ServiceError) throw error;
    throw isOutbound(error) ? providerAway(provider) : externalFailed();
  } finally {
    await keepKeys(call, provider, configuration);
  }
}

/**
 * Keeps the keys that an exchange has read, whether or not it succeeded: the library reads them
 * again for an unknown key at most once a minute.
 */
async function keepKeys(
  call: Deps,
  provider: ExternalProvider,
  configuration: library.Configuration,
): Promise<void> {
  const { getJwksCache } = await loadLibrary();
  const keys = getJwksCache(configuration);
  const known = discoveredOf(call, provider);
  if (keys && keys.uat >= (known.keys?.uat ?? 0)) known.keys = keys; // a concurrent exchange may have read newer ones
}

/** The library, loaded on first use. */
const loadLibrary = (): Promise<Library> => import("openid-client");

/** The error for a provider that is unavailable. */
const providerAway = ({ name }: ExternalProvider) =>
  unavailable(`${name} does not answer. Please begin again in a moment.`);

/** Whether a request to the provider failed. The library wraps such errors. */
function isOutbound(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause)
    if (each instanceof OutboundError) return true;
  return false;
}

/**
 * Logs what is wrong with a provider. Logs only codes, because the errors of the library contain
 * responses of the provider, with tokens.
 */
function report({ log, requestId }: Deps, { id: provider }: ExternalProvider, thrown: unknown) {
  const { code, error, name } = thrown as { code?: unknown; error?: unknown; name?: string };
  const isCode = (value: unknown) => typeof value === "string" && /^\w{1,64}$/.test(value);
  const problem = isOutbound(thrown) ? "no answer" : ([error, code].find(isCode) ?? name);
  log.warn({ provider, problem, requestId }, "an exchange with a sign-in provider failed");
}

/**
 * The configuration for one start or finish, whose requests share a deadline.
 * @throws ServiceError UNAVAILABLE if the provider can't be reached or is misconfigured
 */
async function configurationOf(call: Deps, provider: ExternalProvider) {
  const signal = AbortSignal.any([call.signal, AbortSignal.timeout(DEADLINE_MS)]);
  const fetch: library.CustomFetch = (url, { method, headers, body }) => {
    const text = body === undefined || body === null ? undefined : String(body);
    return call.external.outbound.fetch(url, { method, headers, body: text }, signal);
  };
  const configure = provider.kind === "github" ? configureGithub : configureOpenId;
  try {
    return { configuration: await configure(call, provider, fetch, signal), signal };
  } catch (error) {
    report(call, provider, error);
    throw providerAway(provider);
  }
}

type Configure = (
  call: Deps,
  provider: ExternalProvider,
  fetch: library.CustomFetch,
  signal: AbortSignal,
) => Promise<library.Configuration>;

/** Corrects the library's clock, which is that of the machine. */
async function clientMetadata({ clock }: Deps) {
  const { clockSkew } = await loadLibrary();
  return { [clockSkew]: Math.round((clock.now().getTime() - Date.now()) / 1000) };
}

const configureGithub: Configure = async (call, provider, fetch) => {
  const { Configuration, ClientSecretPost, ...openid } = await loadLibrary();
  const { issuer, clientId } = provider;
  const server = {
    issuer,
    authorization_endpoint: `${issuer}/login/oauth/authorize`,
    token_endpoint: `${issuer}/login/oauth/access_token`,
  };
  const secret = ClientSecretPost(await secretOf(call, provider));
  const configuration = new Configuration(server, clientId, await clientMetadata(call), secret);
  configuration[openid.customFetch] = fetch;
  if (issuer.startsWith("http:")) openid.allowInsecureRequests(configuration);
  return configuration;
};

const configureOpenId: Configure = async (call, provider, fetch, signal) => {
  const { ClientSecretPost, ClientSecretBasic, ...openid } = await loadLibrary();
  const { issuer, clientId } = provider;
  const secret = await secretOf(call, provider);
  const authentication: library.ClientAuth = (server, ...rest) => {
    const { token_endpoint_auth_methods_supported: methods } = server;
    const isPost = provider.kind === "apple" || methods?.includes("client_secret_post");
    (isPost ? ClientSecretPost(secret) : ClientSecretBasic(secret))(server, ...rest);
  };
  const configuration = await openid.discovery(
    new URL(issuer),
    clientId,
    await clientMetadata(call),
    authentication,
    {
      [openid.customFetch]: () => readDocument(call, provider, signal),
      execute: issuer.startsWith("http:") ? [openid.allowInsecureRequests] : [],
    },
  );
  const { href: keysUrl } = new URL(configuration.serverMetadata().jwks_uri ?? issuer);
  configuration[openid.customFetch] = (url, options) =>
    url === keysUrl ? readKeys(call, provider, () => fetch(url, options)) : fetch(url, options);
  openid.enableNonRepudiationChecks(configuration); // otherwise the signatures of ID tokens would not be verified
  const { keys } = discoveredOf(call, provider);
  if (keys) openid.setJwksCache(configuration, keys);
  return configuration;
};

/**
 * The client secret. Apple's is a JWT (Sign in with Apple REST API, "Creating a client secret").
 */
async function secretOf({ clock }: Deps, provider: ExternalProvider): Promise<string> {
  const { secret, issuer, clientId } = provider;
  if (!isAppleSecret(secret)) return secret;
  const now = Math.floor(clock.now().getTime() / 1000);
  return new SignJWT()
    .setProtectedHeader({ alg: "ES256", kid: secret.keyId })
    .setIssuer(secret.teamId)
    .setSubject(clientId)
    .setAudience(issuer)
    .setIssuedAt(now)
    .setExpirationTime(now + SECRET_SECONDS)
    .sign(secret.privateKey);
}

const isAppleSecret = (secret: ClientSecret): secret is Exclude<ClientSecret, string> =>
  typeof secret !== "string";

type Claims = Partial<library.IDToken>;

/**
 * The identity in an ID token, whose signature, issuer, audience, nonce and expiry the library has
 * checked. The authorized party, if present, must be this client (OpenID Connect Core section
 * 3.1.3.7).
 * @throws ServiceError EXTERNAL_FAILED
 */
function readClaims(
  { clock }: Deps,
  provider: ExternalProvider,
  claims: Claims,
  isProof: boolean,
): ExternalIdentity {
  const { iss: issuer = "", sub: subject = "", iat = 0, auth_time: authTime, name } = claims;
  const now = clock.now().getTime() / 1000;
  const isNamed =
    /^[\x20-\x7e]+$/.test(subject) && subject.length <= MAX_SUBJECT && issuer.length <= MAX_ISSUER;
  const isForUs = claims.azp === undefined || claims.azp === provider.clientId; // the library checks it only if there are several audiences
  if (!isNamed || !isForUs || iat > now + SKEW_SECONDS) throw externalFailed();
  const age = typeof authTime === "number" ? now - authTime : 0; // some providers do not send it
  if (isProof && (age > MAX_AUTH_AGE_SECONDS + SKEW_SECONDS || age < -SKEW_SECONDS))
    throw externalFailed();
  const email = textOf(claims.email, MAX_EMAIL);
  return {
    provider: provider.id,
    issuer,
    subject,
    email: email ?? null,
    isProven: email !== undefined && isProvenAddress(provider, email, claims),
    name: textOf(name, 1_000),
  };
}

/**
 * A text that can be stored. PostgreSQL cannot store NUL, which some providers accept from their
 * users.
 */
const textOf = (value: unknown, maxLength: number): string | undefined =>
  typeof value === "string" && /^[^\0]+$/.test(value) && value.length <= maxLength
    ? value
    : undefined;

/**
 * Whether the owner of an account is proven to own its address. "Verified" has a different meaning
 * at each provider.
 */
function isProvenAddress({ emails }: ExternalProvider, email: string, claims: Claims): boolean {
  const { email_verified: isVerified, hd } = claims;
  const isGmail = email.toLowerCase().endsWith("@gmail.com");
  switch (emails) {
    case "google": // other addresses were verified only once, and may belong to somebody else by now
      return isVerified === true && (isGmail || textOf(hd, MAX_EMAIL) !== undefined);
    case "apple": // also sends it as text
      return [true, "true"].includes(isVerified as boolean | string);
    case "trusted":
      return isVerified === undefined || isVerified === true;
    default:
      return false;
  }
}

const appleUser = z.object({
  name: z.object({ firstName: z.string().nullish(), lastName: z.string().nullish() }),
});

/**
 * The name that Apple sends once, beside the code, since its ID tokens contain none. The browser
 * may have changed it, so it is treated like a name that the person typed. The address beside it is
 * ignored.
 */
function readAppleName(user = ""): string | undefined {
  try {
    const { firstName, lastName } = appleUser.parse(JSON.parse(user)).name;
    return [firstName, lastName].filter(Boolean).join(" ") || undefined;
  } catch {
    return undefined;
  }
}

const githubUser = z.object({ id: z.int(), login: z.string(), name: z.string().nullish() });
const githubEmails = z.array(
  z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() }),
);

/** Reads the identity for an access token of GitHub, which has no ID tokens. */
async function readGithub(
  { external }: Deps,
  { id: provider, issuer, apiUrl }: ExternalProvider,
  token: string,
  signal: AbortSignal,
): Promise<ExternalIdentity> {
  const headers = { authorization: `Bearer ${token}`, accept: "application/vnd.github+json" };
  const read = async (path: string): Promise<unknown> => {
    const response = await external.outbound.fetch(apiUrl + path, { headers }, signal);
    if (response.status !== 200) throw externalFailed();
    return response.json();
  };
  const { id, login, name } = githubUser.parse(await read("/user"));
  const emails = githubEmails.parse(await read("/user/emails?per_page=100")); // the primary one may not be on the first page of 30
  const primary = emails.find((each) => each.primary);
  const email = textOf(primary?.email, MAX_EMAIL) ?? null;
  return {
    provider,
    issuer,
    subject: String(id),
    email,
    isProven: email !== null && primary?.verified === true,
    name: name ?? login,
  };
}
