import { auditRow } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { encodeDeviceToken, impliedDeviceId, readDeviceToken } from "../crypto/device-token.ts";
import { circumstancesOf } from "../mail/circumstances.ts";
import { lifetimeOf } from "../mail/templates.ts";
import { networkOf } from "../platform/gate/address.ts";
import type { Reservation } from "../store/attempts.ts";
import { newId } from "../store/ids.ts";
import type { SignInMethod } from "../store/sessions.ts";
import {
  type NewDeviceNotice,
  type NewSession,
  type SignedInUser,
  signIn,
} from "../store/sign-in.ts";
import type { LoginUser, User } from "../store/users.ts";
import { deviceOf } from "./device.ts";
import { createTokenPair, type TokenPair } from "./tokens.ts";

/**
 * Result of a login, with the field names of the response messages. Flags that are false are
 * absent.
 */
export type LoginResult = TokenPair & {
  user: SignedInUser;
  /** Of the browser or app, which has signed in here now. */
  deviceToken: string;
  passwordExpired?: true;
  restored?: true;
};

/** Lifetime of the link that undoes a sign-in on a new device, since it was last mailed, in ms. */
const NOT_ME_TTL_MS = 7 * 86_400_000;

/**
 * Opens a session for a user whose password or second factor was verified against this row. Cancels
 * a pending deletion. Makes the device known to the account, and tells the owner of a new one.
 * @param methods what proved the sign-in, the first factor first
 * @param deviceToken of the browser or app; it keeps its id. Without one, the device is known by
 * its kind and network
 * @param attempt the successful password attempt, which is completed by the same statement;
 * undefined if a second factor was verified, whose transaction the statement joins
 * @returns undefined if the password or second factor has changed since the row was read
 */
export async function openSession(
  call: Call,
  user: LoginUser,
  methods: SignInMethod[],
  deviceToken: string,
  attempt?: Reservation,
): Promise<LoginResult | undefined> {
  const { refreshTokenTtlMs, sessionMaxAgeMs } = call.config;
  const opened = newSession(call, methods, refreshTokenTtlMs, sessionMaxAgeMs);
  const deviceId =
    readDeviceToken(call.cipher, deviceToken) ??
    impliedDeviceId(call.cipher, user.id, opened.device, networkOf(opened.ip));
  const session = { ...opened, deviceId };
  const [method = "password"] = methods;
  const events = [
    auditRow(call, "user.restored", { userId: user.id }),
    auditRow(call, "auth.login", { userId: user.id, details: { method } }),
  ];
  const found = await signIn(call, user, session, events, noticeOf(call, user, session), attempt);
  if (!found) return undefined;
  const { isNotified, ...signedIn } = found;
  if (isNotified) call.onComplete.push(() => call.mailWorker.wake());
  const tokenSession = { ...session, generation: 0, rotatedAt: session.createdAt, actorId: null };
  return {
    ...createTokenPair(call, tokenSession, signedIn),
    user: signedIn,
    deviceToken: encodeDeviceToken(call.cipher, deviceId),
    ...(method === "password" && isPasswordExpired(call, user) && { passwordExpired: true }),
    ...(signedIn.restored && { restored: true }),
  };
}

function noticeOf(
  call: Call,
  { id, name }: Pick<LoginUser, "id" | "name">,
  { createdAt }: NewSession,
): NewDeviceNotice {
  const lifetime = lifetimeOf(NOT_ME_TTL_MS);
  return {
    mailId: newId(createdAt),
    tokenId: newId(createdAt),
    tokenExpiresAt: new Date(createdAt.getTime() + NOT_ME_TTL_MS),
    variables: { name, ...circumstancesOf(call, id), lifetime },
  };
}

/**
 * The row of a session that starts now.
 * @param methods what proved the sign-in
 * @param lifetimeMs without a refresh; with refreshes at most `maxAgeMs`
 */
export function newSession(
  { client, clock, locate }: Call,
  methods: SignInMethod[],
  lifetimeMs: number,
  maxAgeMs: number,
): NewSession {
  const createdAt = clock.now();
  const after = (ms: number) => new Date(createdAt.getTime() + ms);
  const { address: ip, agent } = client;
  const times = { createdAt, expiresAt: after(lifetimeMs), endsAt: after(maxAgeMs) };
  const device = deviceOf(agent);
  const deviceId = null;
  return { id: newId(createdAt), methods, deviceId, device, ip, location: locate(ip), ...times };
}

/** Whether the password has reached its maximum age. */
export function isPasswordExpired(
  { config, clock }: Call,
  { passwordChangedAt }: LoginUser | User,
): boolean {
  return (
    config.passwordMaxAgeMs > 0 &&
    clock.now().getTime() - passwordChangedAt.getTime() >= config.passwordMaxAgeMs
  );
}
