import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { equalSecrets } from "../platform/client.ts";
import { ServiceError } from "../platform/errors.ts";
import {
  type IssuedToken,
  OneTimeToken,
  type OneTimeTokenKind,
  takeOneTimeToken,
  type VerifiedToken,
} from "../store/one-time-tokens.ts";
import { bytesOfId, type ClockedDb, type Db, idOfBytes, newId } from "../store/store.ts";
import type { User } from "../store/users.ts";
import type { Cipher } from "./cipher.ts";

const MAC_BYTES = 16;

type Deps = ClockedDb & { cipher: Cipher };

/** Issues a token for an e-mail, in the place of an older one of its user and kind. Its text is derived from its id later. */
export async function issueOneTimeToken(
  call: ClockedDb,
  kind: OneTimeTokenKind,
  { id: userId, email }: Pick<User, "id" | "email">,
  lifetimeMs: number,
): Promise<IssuedToken> {
  const createdAt = call.clock.now();
  const expiresAt = new Date(createdAt.getTime() + lifetimeMs);
  const token = { id: newId(createdAt), kind, email, createdAt, expiresAt };
  await call.em.upsert(OneTimeToken, { ...token, user: userId, failed: 0 }, { onConflictFields: ["user", "kind"] });
  return { ...token, userId };
}

/** The text in the e-mail: the id and 128 bits of its keyed digest, 43 characters. */
export const encodeOneTimeToken = (cipher: Cipher, id: string): string => encode(id, cipher.mac(id, CONTEXT));

const CONTEXT = "one-time-token";
const encode = (id: string, mac: Buffer) =>
  Buffer.concat([bytesOfId(id), mac.subarray(0, MAC_BYTES)]).toString("base64url");

/** Finds the user of a token without consuming it. @throws ServiceError TOKEN_INVALID */
export async function readOneTimeToken(call: Deps, text: string, kind: OneTimeTokenKind): Promise<string> {
  const id = idOfText(call.cipher, text);
  const token = await call.em.findOne(OneTimeToken, { id, kind, expiresAt: { $gt: call.clock.now() } });
  if (!token) throw invalidToken();
  return token.user.id;
}

/**
 * Consumes a token, in the transaction of what it allows. Of several callers one succeeds. Locks the row of its user first.
 * @throws ServiceError TOKEN_INVALID
 */
export async function consumeOneTimeToken(
  call: Deps,
  text: string,
  kinds: readonly OneTimeTokenKind[],
): Promise<VerifiedToken> {
  const token = await takeOneTimeToken(call, idOfText(call.cipher, text), kinds, call.clock.now());
  if (!token) throw invalidToken();
  return token;
}

/** Deletes a user's tokens, of some kinds or of all. Lock the user first. */
export async function invalidateOneTimeTokens({ em }: Db, userId: string, kinds?: OneTimeTokenKind[]): Promise<void> {
  await em.nativeDelete(OneTimeToken, { user: userId, ...(kinds && { kind: kinds }) });
}

const invalidToken = () =>
  new ServiceError(Reason.TOKEN_INVALID, "This link is invalid, expired or already used. Please ask for a new one.");

/** The id of a token's text. @throws ServiceError TOKEN_INVALID if its digest is not ours */
function idOfText(cipher: Cipher, text: string): string {
  const id = idOfBytes(Buffer.from(text, "base64url")); // untrusted until the whole text is compared
  if (cipher.macs(id, CONTEXT).some((mac) => equalSecrets(text, encode(id, mac)))) return id;
  throw invalidToken();
}
