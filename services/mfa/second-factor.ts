import { randomInt } from "node:crypto";
import type { VerifyMfaRequest } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call, SystemCall } from "../call.ts";
import type { Cipher } from "../crypto/cipher.ts";
import { isForGood, recordFailedAttempt, withAttempt } from "../lockout/reserve-attempt.ts";
import { queueEmail } from "../mail/queue.ts";
import type { Config } from "../platform/config/config.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { clearLock, deleteAttempts, findLock } from "../store/attempts.ts";
import { invalidateOneTimeTokens } from "../store/one-time-tokens.ts";
import { consumeTotpStep, replaceBackupCodes, takeBackupCode, User } from "../store/users.ts";

/** A submitted factor: either a code from the authenticator app or a backup code. */
export type SecondFactor = Pick<VerifyMfaRequest, "code" | "backupCode">;

/** Whether a sign-in of a user needs a second factor after a password. */
export const needsSecondFactor = ({
  mfaEnabled,
  secondFactor,
}: Pick<User, "mfaEnabled" | "secondFactor">): boolean => mfaEnabled || secondFactor;

/**
 * Verifies a second factor and runs the operation that it authorizes, in one transaction. Wrong
 * factors are counted separately from wrong passwords. The count is committed before the error is
 * thrown.
 * @param before locks the user row and checks preconditions; what it writes is kept if the factor
 * is wrong
 * @param work runs once the factor has been consumed
 * @throws ServiceError INVALID_CODE, ACCOUNT_LOCKED, UNAVAILABLE
 */
export async function withSecondFactor<T>(
  call: Call,
  user: User,
  factor: SecondFactor,
  before: () => Promise<void>,
  work: () => Promise<T>,
): Promise<T> {
  const codes = { kind: "second-factor", subject: user.id } as const;
  // Once codes are permanently locked, backup codes have their own counter.
  const isLastResort =
    factor.backupCode && isForGood(await findLock(call, codes, call.clock.now()));
  return withAttempt(
    call,
    isLastResort ? { ...codes, kind: "backup-code" } : codes,
    async (attempt) => {
      const outcome = await call.em.transactional(async () => {
        await before();
        return (await consumeSecondFactor(call, user, factor))
          ? { result: await work() }
          : undefined;
      });
      if (!outcome) {
        await recordFailedAttempt(call, attempt, "auth.mfa_failed", user);
        throw new ServiceError(
          Reason.INVALID_CODE,
          "This code is wrong, has expired or was already used.",
        );
      }
      await attempt.succeed();
      if (factor.backupCode) await clearLock(call, codes, true);
      return outcome.result;
    },
  );
}

/**
 * Consumes a factor with a conditional statement: only one of several callers with the same factor
 * succeeds.
 * @returns whether the factor was right
 */
async function consumeSecondFactor(
  call: Call,
  user: User,
  { code = "", backupCode }: SecondFactor,
): Promise<boolean> {
  if (!needsSecondFactor(user)) return false;
  if (backupCode) return useBackupCode(call, user, backupCode);
  return user.mfaSecret ? useTotpCode(call, user, user.mfaSecret, code) : false;
}

/** Tolerated clock difference of a device, in seconds: one step (RFC 6238 section 5.2). */
const DRIFT_SECONDS = 30;

async function useTotpCode(
  call: Call,
  user: User,
  encryptedSecret: string,
  token: string,
): Promise<boolean> {
  const secret = call.cipher.decrypt(encryptedSecret, totpContext(user.id));
  const epoch = Math.floor(call.clock.now().getTime() / 1000);
  const { verify } = await import("otplib"); // only some users have a second factor
  const result = await verify({ secret, token, epoch, epochTolerance: DRIFT_SECONDS });
  return (
    result.valid &&
    "timeStep" in result &&
    consumeTotpStep(call, user, result.timeStep, call.clock.now())
  );
}

async function useBackupCode(call: Call, user: User, code: string): Promise<boolean> {
  const left = await takeBackupCode(call, user.id, digestsOf(call.cipher, user.id, code));
  if (left === undefined) return false;
  await recordAudit(call, "auth.backup_code_used", { userId: user.id, details: { left } });
  await queueEmail(call, user, "backup-code-used", { left: String(left) });
  return true;
}

/**
 * Disables a user's second factor: deletes the authenticator, the requirement, backup codes, failed
 * attempts and pending MFA tokens. Joins the caller's transaction, which has locked the user.
 * @param event recorded unless undefined; an administrator's change is recorded as
 * `admin.user_updated` instead
 * @returns false if the user had no second factor
 */
export async function disableMfa(
  call: SystemCall,
  userId: string,
  event?: "auth.mfa_disabled",
): Promise<boolean> {
  const user = await call.em.findOne(
    User,
    { id: userId, $or: [{ mfaSecret: { $ne: null } }, { secondFactor: true }] },
    { refresh: true },
  );
  if (!user) return false;
  await removeAuthenticator(call, user, { secondFactor: false }, event);
  await replaceBackupCodes(call, userId, []);
  await deleteAttempts(call, userId, "second-factor", "backup-code");
  return true;
}

/**
 * Removes a user's authenticator app. Where the user requires a second factor of every sign-in, the
 * requirement and the backup codes stay: then there are passkeys. Joins the caller's transaction,
 * which has locked the user.
 * @returns false if the user had no authenticator
 */
export async function disableAuthenticator(call: SystemCall, userId: string): Promise<boolean> {
  const user = await call.em.findOne(
    User,
    { id: userId, mfaSecret: { $ne: null } },
    { refresh: true },
  );
  if (!user) return false;
  if (!user.secondFactor) return disableMfa(call, userId, "auth.mfa_disabled");
  await removeAuthenticator(call, user, {}, "auth.mfa_disabled");
  return true;
}

async function removeAuthenticator(
  call: SystemCall,
  user: User,
  changes: { secondFactor?: false },
  event?: "auth.mfa_disabled",
): Promise<void> {
  const removed = { mfaSecret: null, mfaConfirmedAt: null, mfaLastStep: null };
  const updatedAt = call.clock.now();
  await call.em.nativeUpdate(User, { id: user.id }, { ...removed, ...changes, updatedAt });
  await invalidateOneTimeTokens(call, user.id, ["sign-in"]);
  if (event) await recordAudit(call, event, { userId: user.id });
  await queueEmail(call, user, "mfa-disabled");
}

/**
 * The URI that authenticator apps read. Colons in the product name are removed, since apps split
 * the label at the first colon (Key URI format, section "Label").
 */
export async function otpauthUri(
  { mfaIssuer }: Pick<Config, "mfaIssuer">,
  label: string,
  secret: string,
): Promise<string> {
  const { generateURI } = await import("otplib");
  const issuer = mfaIssuer.replace(/[\s:]+/g, " ").trim() || "account";
  return generateURI({ issuer, label, secret });
}

/** The encryption context that binds a secret to its user. */
export const totpContext = (userId: string) => `totp ${userId}`;

/** Number of codes in a set. */
const COUNT = 10;
/** Unambiguous digits and letters: neither 0 and O, nor 1, I and L, nor U and V. */
const ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ";
const GROUP = 4;

/**
 * Creates a new set of backup codes, replacing the old one. Only keyed digests are stored.
 * Lock the user first.
 */
export async function createBackupCodeSet(call: Call, userId: string): Promise<string[]> {
  const codes = new Set<string>();
  while (codes.size < COUNT) codes.add(`${randomGroup()}-${randomGroup()}`);
  const digests = [...codes].flatMap((code) => digestsOf(call.cipher, userId, code).slice(0, 1));
  await replaceBackupCodes(call, userId, digests);
  return [...codes];
}

/**
 * The keyed digests of a code, ignoring letter case and hyphens. Without the key, which is not
 * stored in the database, the 39 bits of a code cannot be guessed offline.
 */
function digestsOf(cipher: Cipher, userId: string, code: string): string[] {
  const normal = code.toUpperCase().replaceAll("-", "");
  return cipher.macs(`${userId} ${normal}`, "backup-code").map((mac) => mac.toString("base64url"));
}

const randomGroup = () =>
  Array.from({ length: GROUP }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
