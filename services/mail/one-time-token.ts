import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Cipher } from "../crypto/cipher.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { equalSecrets } from "../platform/rpc/metadata.ts";
import { bytesOfId, idOfBytes } from "../store/ids.ts";
import {
  OneTimeToken,
  type OneTimeTokenKind,
  takeOneTimeToken,
  type VerifiedToken,
} from "../store/one-time-tokens.ts";
import type { ClockedDb } from "../store/statement.ts";

const MAC_BYTES = 16;

type Deps = ClockedDb & { cipher: Cipher };

/** The token's text in the e-mail: the id and 128 bits of its keyed digest, 43 characters. */
export const encodeOneTimeToken = (cipher: Cipher, id: string): string =>
  encode(id, cipher.mac(id, CONTEXT));

const CONTEXT = "one-time-token";
const encode = (id: string, mac: Buffer) =>
  Buffer.concat([bytesOfId(id), mac.subarray(0, MAC_BYTES)]).toString("base64url");

/**
 * Finds the user of a token without consuming it.
 * @throws ServiceError TOKEN_INVALID
 */
export async function readOneTimeToken(
  call: Deps,
  text: string,
  kinds: OneTimeTokenKind[],
): Promise<string> {
  const id = idOfText(call.cipher, text);
  const token = await call.em.findOne(OneTimeToken, {
    id,
    kind: { $in: kinds },
    expiresAt: { $gt: call.clock.now() },
  });
  if (!token) throw invalidToken();
  return token.user.id;
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

/**
 * The id in a token's text.
 * @throws ServiceError TOKEN_INVALID if the digest is not ours
 */
function idOfText(cipher: Cipher, text: string): string {
  const id = idOfBytes(Buffer.from(text, "base64url")); // untrusted until the whole text has been compared
  if (cipher.macs(id, CONTEXT).some((mac) => equalSecrets(text, encode(id, mac)))) return id;
  throw invalidToken();
}
