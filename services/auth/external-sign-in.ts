import { create } from "@bufbuild/protobuf";
import {
  type FinishExternalRequest,
  type RegisterRequest,
  RegisterRequestSchema,
  type StartExternalRequest,
} from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { canonicalEmail, type EmailAddress } from "../accounts/email-address.ts";
import { endAccess } from "../accounts/reset-access.ts";
import { assertMaySignUp } from "../accounts/sign-up.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { encodeDeviceToken, readDeviceToken } from "../crypto/device-token.ts";
import { authorizationUrl, exchangeCode, type ProviderAnswer } from "../external/exchange.ts";
import { type ExternalIdentity, externalFailed, sealIdentity } from "../external/identity-token.ts";
import type { ExternalProvider } from "../external/registry.ts";
import { resolveArrival } from "../external/resolve.ts";
import {
  type ExternalPurpose,
  type ExternalState,
  openState,
  randomSecret,
  sealState,
} from "../external/state.ts";
import { circumstancesOf } from "../mail/circumstances.ts";
import { queueEmail, queueEmails } from "../mail/queue.ts";
import { lifetimeOf } from "../mail/templates.ts";
import { needsSecondFactor } from "../mfa/second-factor.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { violationsOf } from "../platform/rpc/validation.ts";
import { openSession } from "../sessions/open-session.ts";
import { completeCeremony } from "../store/ceremonies.ts";
import { isKnownDevice } from "../store/devices.ts";
import { findIdentity, type Identity, insertIdentity, useIdentity } from "../store/identities.ts";
import { newId } from "../store/ids.ts";
import { issueOneTimeToken } from "../store/one-time-tokens.ts";
import { insertExternal, lockUser, User } from "../store/users.ts";
import {
  askForSecondFactor,
  assertNotSuspended,
  assertVerifiedAddress,
  type LoginOutcome,
} from "./login.ts";

/** A proof of an identity, for connecting it or for a confirmation. */
type Proof = { identityToken: string };

/**
 * Begins an exchange with a provider. Nothing is stored.
 * @returns the provider's page, and the token of the browser or app that may finish
 * @throws ServiceError NOT_FOUND, VALIDATION_FAILED, UNAVAILABLE
 */
export async function startExternal(
  call: Call,
  request: Pick<StartExternalRequest, "provider" | "purpose" | "returnTo" | "acceptTerms">,
  deviceToken: string,
): Promise<{ authorizationUrl: string; deviceToken: string }> {
  const provider = providerOf(call, request.provider);
  const { externalPages } = call.config;
  const page = request.returnTo === undefined ? 0 : externalPages.indexOf(request.returnTo);
  if (page < 0) throw invalid("returnTo", "must be a page that this service is configured for");
  const device = readDeviceToken(call.cipher, deviceToken) ?? newId(call.clock.now());
  const state: ExternalState = {
    id: newId(call.clock.now()),
    provider: provider.id,
    verifier: randomSecret(),
    nonce: randomSecret(),
    device,
    purpose: (request.purpose ?? "sign-in") as ExternalPurpose,
    page,
    acceptTerms: request.acceptTerms ?? false,
  };
  return {
    authorizationUrl: await authorizationUrl(call, provider, state, sealState(call.cipher, state)),
    deviceToken: encodeDeviceToken(call.cipher, device),
  };
}

function providerOf({ external }: Call, id: string): ExternalProvider {
  const provider = external.providers.get(id);
  if (!provider) throw new ServiceError(Reason.NOT_FOUND, "There is no such sign-in provider.");
  return provider;
}

/**
 * Finishes an exchange with a provider, once, on the device that began it.
 * @throws ServiceError EXTERNAL_FAILED, EXTERNAL_EMAIL_MISSING, SIGN_UP_CLOSED, ACCOUNT_SUSPENDED,
 * EMAIL_NOT_VERIFIED, VALIDATION_FAILED without accepted terms, NOT_FOUND, UNAVAILABLE
 */
export async function finishExternal(
  call: Call,
  answer: Pick<FinishExternalRequest, "provider" | "code" | "state" | "iss" | "error" | "user">,
  deviceToken: string,
): Promise<LoginOutcome | Proof> {
  const provider = providerOf(call, answer.provider);
  try {
    const { state, code } = await openExchange(call, provider, answer, deviceToken);
    const identity = await exchangeCode(call, provider, state, { ...answer, code });
    if (state.purpose === "prove")
      return { identityToken: sealIdentity(call, identity, state.device, true) };
    return await arrive(call, provider, identity, state, deviceToken);
  } catch (error) {
    if (error instanceof ServiceError && error.reason === Reason.EXTERNAL_FAILED) {
      const details = { provider: provider.id };
      const failure = { userId: undefined, outcome: "failure" as const, details };
      await recordAudit(call, "auth.external_failed", failure);
    }
    throw error;
  }
}

/**
 * Opens the exchange of an answer and completes its ceremony, so that its code is sent once.
 * @throws ServiceError EXTERNAL_FAILED
 */
async function openExchange(
  call: Call,
  { id }: ExternalProvider,
  {
    state: text,
    code,
    error,
  }: Pick<ProviderAnswer, "state"> & {
    code?: string | undefined;
    error?: string | undefined;
  },
  deviceToken: string,
) {
  const opened = openState(call.cipher, text, call.clock.now());
  const isOurs =
    opened?.state.provider === id &&
    opened.state.device === readDeviceToken(call.cipher, deviceToken);
  if (!opened || !isOurs || !code || error) throw externalFailed();
  if (!(await completeCeremony(call, opened.ceremony))) throw externalFailed();
  return { state: opened.state, code };
}

/**
 * Lets somebody in who comes from a provider. See `resolveArrival`. What it writes about accounts
 * is committed before the sign-in, which may still be refused.
 */
async function arrive(
  call: Call,
  provider: ExternalProvider,
  identity: ExternalIdentity,
  { device, acceptTerms }: ExternalState,
  deviceToken: string,
): Promise<LoginOutcome | Proof> {
  const address = identity.email === null ? undefined : canonicalEmail(identity.email);
  const decide = async () => {
    // the account first: whoever creates it commits the identity with it
    const user = address && (await findAccount(call, address));
    const known = await findIdentity(call, identity);
    if (known) return { arrived: "sign-in", known } as const;
    const arrived = resolveArrival({
      isConnected: false,
      account: !user ? "none" : user.isNeverVerified() ? "never-verified" : "verified",
      address: !address ? "none" : identity.isProven ? "proven" : "unproven",
      isKnownDevice: !!user && (await isKnownDevice(call, user.id, device)),
    });
    return { arrived, user } as const;
  };
  // a concurrent sign-in may have made the account or taken it: then the decision is made again
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const { arrived, ...found } = await decide();
    if (found.known) return signInBy(call, found.known, identity, deviceToken);
    if (arrived === "identity-token")
      return { identityToken: sealIdentity(call, identity, device, false) };
    if (!address) throw emailMissing(provider);
    if (!acceptTerms) throw invalid("acceptTerms", "must be true: the terms have to be accepted");
    const change = found.user
      ? attachBy(call, found.user, identity, arrived === "take-back")
      : createAccount(call, provider, identity, address);
    await change.catch((error) => {
      if (!(error instanceof Forestalled)) throw error;
    });
  }
  throw externalFailed();
}

/**
 * Decisions about one arrival: each but the last leads to a change that another caller may have
 * forestalled.
 */
const MAX_ATTEMPTS = 3;

/** A concurrent caller has stored the identity, so the transaction is rolled back. */
class Forestalled extends Error {}

const emailMissing = ({ name }: ExternalProvider) =>
  new ServiceError(
    Reason.EXTERNAL_EMAIL_MISSING,
    `${name} has not told us your e-mail address, which a new account needs.`,
  );

const findAccount = ({ em }: Call, { canonical }: EmailAddress) =>
  em.findOne(User, { canonicalEmail: canonical }, { refresh: true });

/** Signs in the user who has an identity. */
async function signInBy(
  call: Call,
  { id, userId }: Identity,
  { email }: ExternalIdentity,
  deviceToken: string,
): Promise<LoginOutcome> {
  const user = await call.em.findOne(User, { id: userId }, { refresh: true });
  if (!user || user.isDeletionDue(call.clock.now())) throw externalFailed();
  await assertNotSuspended(call, user);
  await assertVerifiedAddress(call, user);
  return call.em.transactional(async () => {
    await lockUser(call, userId);
    if (!(await useIdentity(call, { id, email, now: call.clock.now() }))) throw externalFailed();
    const outcome = needsSecondFactor(user)
      ? await askForSecondFactor(call, user, "external")
      : await openSession(call, user, ["external"], deviceToken);
    if (!outcome) throw externalFailed(); // the account has changed since it was read
    return outcome;
  });
}

/**
 * Creates an account for an identity, if the configuration lets its owner have one. The address is
 * verified if the provider has proven it; else it gets the usual e-mail.
 * @throws ServiceError SIGN_UP_CLOSED
 */
async function createAccount(
  call: Call,
  { signUp, domains }: ExternalProvider,
  identity: ExternalIdentity,
  address: EmailAddress,
): Promise<void> {
  assertMaySignUp(
    { registration: signUp ? call.config.registration : "invited", signUpDomains: [...domains] },
    address,
  );
  assertMaySignUp(call.config, address);
  const createdAt = call.clock.now();
  const user = {
    id: newId(createdAt),
    email: address.stored,
    canonicalEmail: address.canonical,
    name: nameOf(identity, address),
    passwordHash: call.passwords.noPassword,
    emailVerifiedAt: identity.isProven ? createdAt : null,
    createdAt,
  };
  await call.em.transactional(async () => {
    if (!(await insertExternal(call, user))) return; // somebody else has just taken the address
    await connect(call, user.id, identity, "create");
    await recordAudit(call, "auth.register", { userId: user.id });
    if (identity.isProven) return recordAudit(call, "auth.email_verified", { userId: user.id });
    const { verifyTokenTtlMs } = call.config;
    const token = await issueOneTimeToken(call, "verify-email", user, verifyTokenTtlMs);
    const lifetime = lifetimeOf(verifyTokenTtlMs);
    const circumstances = circumstancesOf(call, user.id);
    const variables = { ...circumstances, lifetime };
    await queueEmails(call, [user], "verify-email", variables, token.id); // once per account, as by a registration
  });
}

/**
 * Connects an identity to the account of its proven address, which was never verified, and verifies
 * it.
 * @param isTakenBack whether all other access ends first: somebody else may have made the account
 */
async function attachBy(
  call: Call,
  { id }: User,
  identity: ExternalIdentity,
  isTakenBack: boolean,
): Promise<void> {
  await call.em.transactional(async () => {
    await lockUser(call, id);
    const user = await call.em.findOne(User, { id }, { refresh: true });
    if (!user?.isNeverVerified() || user.isDeletionDue(call.clock.now())) return; // changed in the meantime
    if (isTakenBack) {
      await endAccess(call, id);
      await recordAudit(call, "user.taken_back", { userId: id });
    }
    const now = call.clock.now();
    await call.em.nativeUpdate(User, { id }, { emailVerifiedAt: now, updatedAt: now });
    await recordAudit(call, "auth.email_verified", { userId: id });
    await connect(call, id, identity, isTakenBack ? "take-back" : "attach");
    const template = isTakenBack ? "account-taken-back" : "identity-added";
    const provider = call.external.providers.get(identity.provider)?.name ?? identity.provider;
    await queueEmail(call, user, template, { provider });
  });
}

/** @throws Forestalled */
async function connect(
  call: Call,
  userId: string,
  { provider, issuer, subject, email }: ExternalIdentity,
  how: string,
): Promise<void> {
  const createdAt = call.clock.now();
  const identity = { id: newId(createdAt), userId, provider, issuer, subject, email };
  if (!(await insertIdentity(call, { ...identity, createdAt, lastUsedAt: null })))
    throw new Forestalled();
  const details = { identityId: identity.id, provider, how };
  await recordAudit(call, "user.identity_added", { userId, details });
}

/** The name at the provider, else the local part of the address, within the rules of names. */
function nameOf({ name = "" }: ExternalIdentity, { stored }: EmailAddress): string {
  const [local = ""] = stored.split("@");
  const candidates = [name, local].map((text) => create(RegisterRequestSchema, { name: text }));
  const isName = (candidate: RegisterRequest) =>
    violationsOf(RegisterRequestSchema, candidate).every(({ field }) => field !== "name");
  return candidates.find(isName)?.name ?? "User";
}
