import Bowser from "bowser";
import { auditRow } from "../audit/record.ts";
import type { Call } from "../call.ts";
import type { Reservation } from "../store/attempts.ts";
import { newId } from "../store/ids.ts";
import { type SignedInUser, signIn } from "../store/sign-in.ts";
import type { LoginUser, User } from "../store/users.ts";
import { createTokenPair, type TokenPair } from "./tokens.ts";

/** A completed login. */
export type LoginResult = { user: SignedInUser; tokens: TokenPair; passwordExpired: boolean };

/**
 * Opens a session for a user whose password or second factor was checked against this row. Cancels a requested deletion.
 * @param attempt the password attempt that succeeded, which ends in the same statement; undefined if a
 * second factor was the proof, whose transaction the statement joins.
 * @returns undefined if password or second factor have changed since the row was read.
 */
export async function openSession(
  call: Call,
  user: LoginUser,
  attempt?: Reservation,
): Promise<LoginResult | undefined> {
  const { config, client } = call;
  const createdAt = call.clock.now();
  const after = (ms: number) => new Date(createdAt.getTime() + ms);
  const session = {
    id: newId(createdAt),
    device: deviceOf(client.agent),
    ip: client.address,
    location: call.locate(client.address),
    createdAt,
    expiresAt: after(config.refreshTokenMs),
    endsAt: after(config.sessionMaxAgeMs),
  };
  const events = (["user.restored", "auth.login"] as const).map((event) => auditRow(call, event, { userId: user.id }));
  const signedIn = await signIn(call, user, session, events, attempt);
  if (!signedIn) return undefined;
  const tokens = createTokenPair(call, { ...session, generation: 0, rotatedAt: createdAt, actorId: null }, signedIn);
  return { user: signedIn, tokens, passwordExpired: isPasswordExpired(call, user) };
}

/** Whether the password has reached its maximum age. */
export function isPasswordExpired(
  { config, clock }: Pick<Call, "config" | "clock">,
  { passwordChangedAt }: Pick<User, "passwordChangedAt">,
): boolean {
  return config.passwordMaxAgeMs > 0 && clock.now().getTime() - passwordChangedAt.getTime() >= config.passwordMaxAgeMs;
}

/** The device of a User-Agent, such as "Chrome on Windows". At most 200 characters. */
export function deviceOf(agent: string): string {
  const [word] = /[^/\s]+/.exec(agent) ?? [];
  if (!word) return "Unknown device";
  const { browser, os } = Bowser.parse(agent);
  return [browser.name || word, os.name].filter(Boolean).join(" on ").slice(0, 200);
}
