import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Cipher } from "../crypto/cipher.ts";
import { openSealedId, sealId } from "../crypto/sealed-id.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import {
  OneTimeToken,
  type OneTimeTokenKind,
  takeOneTimeToken,
  type VerifiedToken,
} from "../store/one-time-tokens.ts";
import type { ClockedDb } from "../store/statement.ts";

type Deps = ClockedDb & { cipher: Cipher };

/** The token's text in the e-mail: the id and 128 bits of its keyed digest, 43 characters. */
export const encodeOneTimeToken = (cipher: Cipher, id: string): string =>
  sealId(cipher, id, CONTEXT).toString("base64url");

const CONTEXT = "one-time-token";

/**
 * Finds a token without consuming it.
 * @throws ServiceError TOKEN_INVALID
 */
export async function readOneTimeToken(
  call: Deps,
  text: string,
  kinds: OneTimeTokenKind[],
): Promise<Pick<OneTimeToken, "id" | "deviceId" | "failed"> & { userId: string }> {
  const id = idOfText(call.cipher, text);
  const token = await call.em.findOne(OneTimeToken, {
    id,
    kind: { $in: kinds },
    expiresAt: { $gt: call.clock.now() },
  });
  if (!token) throw invalidToken();
  const { id: tokenId, user, deviceId, failed } = token;
  return { id: tokenId, userId: user.id, deviceId, failed };
}

/**
 * Consumes a token, in the transaction of what it allows. Only one of several concurrent callers
 * succeeds. Locks the user row first.
 * @throws ServiceError TOKEN_INVALID
 */
export async function consumeOneTimeToken(
  call: Deps,
  text: string,
  kinds: OneTimeTokenKind[],
): Promise<VerifiedToken> {
  const token = await takeOneTimeToken(call, idOfText(call.cipher, text), kinds, call.clock.now());
  if (!token) throw invalidToken();
  return token;
}

const invalidToken = () =>
  new ServiceError(
    Reason.TOKEN_INVALID,
    "This link is invalid, has expired or was already used. Please request a new one.",
  );

/** The error for a link that was mailed to an address that the account no longer has. */
export const olderAddress = () =>
  new ServiceError(Reason.TOKEN_INVALID, "This link belongs to an older e-mail address.");

/**
 * The id in a token's text.
 * @throws ServiceError TOKEN_INVALID if the digest is not ours
 */
function idOfText(cipher: Cipher, text: string): string {
  const sealed = Buffer.from(text, "base64url");
  const isCanonical = sealed.toString("base64url") === text;
  const id = isCanonical ? openSealedId(cipher, sealed, CONTEXT) : undefined;
  if (id === undefined) throw invalidToken();
  return id;
}
