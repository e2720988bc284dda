import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { readEmailAddress } from "../accounts/email-address.ts";
import { endAccess } from "../accounts/reset-access.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { encodeDeviceToken, readDeviceToken } from "../crypto/device-token.ts";
import { isEmailCode } from "../mail/email-code.ts";
import { readOneTimeToken } from "../mail/one-time-token.ts";
import {
  hasReachedLimit,
  hasReachedTemplateLimit,
  queueEmail,
  queueEmails,
} from "../mail/queue.ts";
import { lifetimeOf } from "../mail/templates.ts";
import { needsSecondFactor } from "../mfa/second-factor.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { openSession } from "../sessions/open-session.ts";
import { isKnownDevice } from "../store/devices.ts";
import { newId } from "../store/ids.ts";
import {
  countEmailCodeGuess,
  issueOneTimeToken,
  MAX_EMAIL_CODE_GUESSES,
  OneTimeToken,
  takeOneTimeToken,
} from "../store/one-time-tokens.ts";
import { lockUser, User } from "../store/users.ts";
import { askForSecondFactor, assertNotSuspended, type LoginOutcome } from "./login.ts";
import { atAddress, withAccount } from "./with-account.ts";

/** Lifetime of a code, in ms. */
const CODE_TTL_MS = 10 * 60_000;
/**
 * Time within which another request mails the same code again, so that strangers cannot keep
 * invalidating a user's code. In ms.
 */
const SAME_CODE_MS = 5 * 60_000;

/** @throws ServiceError NOT_FOUND where codes by e-mail are off */
function assertOn({ config }: Call): void {
  if (config.emailSignIn === "code") return;
  throw new ServiceError(Reason.NOT_FOUND, "This service does not offer codes by e-mail.");
}

/**
 * Mails a code if the address has an account. Neither the response nor its timing reveals whether
 * it does.
 * @param deviceToken of the browser or app, where the link of the e-mail will work
 * @returns the token of that browser or app
 * @throws ServiceError NOT_FOUND, VALIDATION_FAILED
 */
export async function requestEmailCode(
  call: Call,
  email: string,
  deviceToken: string,
): Promise<string> {
  assertOn(call);
  const device = readDeviceToken(call.cipher, deviceToken) ?? newId(call.clock.now());
  await withAccount(call, email, (user) => queueCode(call, user, device));
  return encodeDeviceToken(call.cipher, device);
}

async function queueCode(call: Call, user: User, deviceId: string): Promise<void> {
  await call.em.transactional(async () => {
    if (!(await lockUser(call, user.id)) || (await hasReachedCodeLimit(call, user, deviceId)))
      return;
    const token =
      (await reuseCode(call, user, deviceId)) ??
      (await issueOneTimeToken(call, "email-code", user, CODE_TTL_MS, deviceId));
    const lifetime = lifetimeOf(token.expiresAt.getTime() - call.clock.now().getTime());
    await queueEmails(call, [user], "email-code", { lifetime }, token.id);
    await recordAudit(call, "auth.email_code_requested", { userId: user.id });
  });
}

/** The most codes an hour, with those that strangers have asked for, where a known device asks. */
const MAX_CODES_FOR_KNOWN_DEVICES = 10;

/**
 * Whether no further code may be mailed. A known device gets one although strangers have used the
 * limits up.
 */
const hasReachedCodeLimit = async (call: Call, user: User, deviceId: string): Promise<boolean> =>
  (await isKnownDevice(call, user.id, deviceId))
    ? hasReachedTemplateLimit(call, user.id, "email-code", MAX_CODES_FOR_KNOWN_DEVICES)
    : hasReachedLimit(call, user, "email-code");

/**
 * The present token of a user, if it is young and has guesses left. Its link works from now on
 * where the code was asked for last.
 */
async function reuseCode(call: Call, { id, email }: User, deviceId: string) {
  const now = call.clock.now();
  const isYoung = {
    createdAt: { $gt: new Date(now.getTime() - SAME_CODE_MS) },
    failed: { $lt: MAX_EMAIL_CODE_GUESSES },
  };
  const known = { user: id, kind: "email-code" as const, email, ...isYoung };
  const token = await call.em.findOne(OneTimeToken, known, { refresh: true });
  if (token) await call.em.nativeUpdate(OneTimeToken, { id: token.id }, { deviceId });
  return token;
}

/** What signs in: an address and its code, or the token of the link. */
type MailedProof = {
  email?: string | undefined;
  code?: string | undefined;
  token?: string | undefined;
};

/**
 * Signs in with a mailed code, or with the link next to it in the browser or app that asked. The
 * code proves the mailbox, so the address counts as verified; an account that was never verified is
 * emptied first, unless this device has signed in to it before. A second factor is asked for. A
 * locked password does not matter: five guesses end a code.
 * @throws ServiceError INVALID_CODE, TOKEN_INVALID, ACCOUNT_SUSPENDED, NOT_FOUND
 */
export async function verifyEmailCode(
  call: Call,
  { email = "", code = "", token }: MailedProof,
  deviceToken: string,
): Promise<LoginOutcome> {
  assertOn(call);
  if (token !== undefined) return followLink(call, token, deviceToken);
  const guess = (user: User) => guessCode(call, user, code, deviceToken);
  return atAddress(call, email, guess, () => refuseGuess(call, undefined));
}

async function guessCode(
  call: Call,
  user: User,
  code: string,
  deviceToken: string,
): Promise<LoginOutcome> {
  const counted = await countEmailCodeGuess(call, user.id, call.clock.now());
  if (!counted || !isEmailCode(call.cipher, counted.id, code)) return refuseGuess(call, user);
  return signInBy(call, user, counted.id, deviceToken, wrongCode);
}

async function refuseGuess(call: Call, user: User | undefined): Promise<never> {
  const details = { method: "email-code" };
  await recordAudit(call, "auth.login_failed", { userId: user?.id, outcome: "failure", details });
  throw wrongCode();
}

const wrongCode = () =>
  new ServiceError(Reason.INVALID_CODE, "This code is wrong, has expired or was already used.");

/**
 * The link works where the code was asked for: a program that opens the links of e-mails is
 * somewhere else. It costs the token nothing.
 */
async function followLink(call: Call, text: string, deviceToken: string): Promise<LoginOutcome> {
  const { id, userId, deviceId, failed } = await readOneTimeToken(call, text, ["email-code"]);
  const isHere = deviceId !== null && deviceId === readDeviceToken(call.cipher, deviceToken);
  const user = await call.em.findOne(User, { id: userId });
  if (!isHere || failed >= MAX_EMAIL_CODE_GUESSES || !user) throw elsewhere();
  return signInBy(call, user, id, deviceToken, elsewhere);
}

const elsewhere = () =>
  new ServiceError(
    Reason.TOKEN_INVALID,
    "This link works only in the browser that requested it, and only for 10 minutes. Please enter the code from the e-mail there.",
  );

/**
 * Consumes a token and signs in its user, in one transaction: one of several callers succeeds.
 * @param refusal the error if the token is gone or the account has changed
 */
async function signInBy(
  call: Call,
  { id }: User,
  tokenId: string,
  deviceToken: string,
  refusal: () => ServiceError,
): Promise<LoginOutcome> {
  const found = await call.em.findOneOrFail(User, { id });
  await assertNotSuspended(call, found);
  return call.em.transactional(async () => {
    const token = await takeOneTimeToken(call, tokenId, ["email-code"], call.clock.now());
    if (!token) throw refusal();
    const user = await call.em.findOneOrFail(User, { id }, { refresh: true });
    const isCurrent = user.canonicalEmail === readEmailAddress(token.email).canonical;
    if (!isCurrent || user.isDeletionDue(call.clock.now())) throw refusal();
    await ownAddress(call, user, deviceToken);
    const owned = await call.em.findOneOrFail(User, { id }, { refresh: true });
    const outcome = needsSecondFactor(owned)
      ? await askForSecondFactor(call, owned, "email-code")
      : await openSession(call, owned, ["email-code"], deviceToken);
    if (!outcome) throw refusal(); // suspended in the meantime
    return outcome;
  });
}

/**
 * Marks the address as verified. On a strange device, all other access to an account that was never
 * verified ends.
 */
async function ownAddress(call: Call, user: User, deviceToken: string): Promise<void> {
  const { id } = user;
  if (user.emailVerified) return;
  const device = readDeviceToken(call.cipher, deviceToken);
  const isKnown = device !== undefined && (await isKnownDevice(call, id, device));
  const isTakenBack = user.isNeverVerified() && !isKnown;
  if (isTakenBack) {
    await endAccess(call, id);
    await recordAudit(call, "user.taken_back", { userId: id });
  }
  const now = call.clock.now();
  await call.em.nativeUpdate(User, { id }, { emailVerifiedAt: now, updatedAt: now });
  await recordAudit(call, "auth.email_verified", { userId: id });
  if (isTakenBack) await queueEmail(call, user, "account-taken-back");
}
