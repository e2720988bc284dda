import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Clock } from "../platform/clock.ts";
import { ServiceError } from "../platform/errors.ts";
import { equalSecrets } from "../platform/metadata.ts";
import { bytesOfId, ID_BYTES, idOfBytes, newId } from "../store/ids.ts";
import { ONE_TIME_TOKEN_KINDS, type OneTimeTokenKind } from "../store/one-time-token.ts";
import type { Db } from "../store/store.ts";
import type { Cipher } from "./cipher.ts";

const MAC_BYTES = 16;

/** What a consumed token proves: that its bearer reads the mail of this address. */
export type VerifiedToken = { kind: OneTimeTokenKind; userId: string; email: string };

/**
 * Issues a token to be mailed; an older one of the same user and kind is void from then on.
 * The row holds no secret: the token's text is derived from its id when the mail is sent.
 * @returns the token's id, which the e-mail refers to.
 */
export async function issueOneTimeToken(
  call: Db & { clock: Clock },
  token: { kind: OneTimeTokenKind; userId: string; email: string; lifetimeMs: number },
): Promise<string> {
  const now = call.clock.now();
  const id = newId(now);
  await call.em.execute(
    `insert into one_time_tokens (id, user_id, kind, email, created_at, expires_at) values (?, ?, ?, ?, ?, ?)
     on conflict (user_id, kind) do update set
       id = excluded.id, email = excluded.email, created_at = excluded.created_at, expires_at = excluded.expires_at,
       failed = 0`,
    [id, token.userId, token.kind, token.email, now, new Date(now.getTime() + token.lifetimeMs)],
  );
  return id;
}

/** The text that the mail carries: the id and 128 bits of a keyed digest of it, 43 characters. */
export function encodeOneTimeToken(cipher: Cipher, id: string): string {
  return Buffer.concat([bytesOfId(id), cipher.mac(id, "one-time-token").subarray(0, MAC_BYTES)]).toString("base64url");
}

/** Looks at a token without using it up. @throws ServiceError TOKEN_INVALID */
export async function readOneTimeToken(
  call: Deps,
  text: string,
  kinds: readonly OneTimeTokenKind[],
): Promise<VerifiedToken> {
  const id = idOf(call.cipher, text);
  const [row] = id
    ? await call.em.execute<Row[]>(
        "select kind, user_id, email from one_time_tokens where id = ? and kind in (?) and expires_at > ?",
        [id, kinds, call.clock.now()],
      )
    : [];
  return toVerifiedToken(row);
}

/**
 * Consumes a token: of any number of parallel callers exactly one succeeds. Its user's row is locked first.
 * Call it inside the transaction of what the proof allows.
 * @throws ServiceError TOKEN_INVALID
 */
export async function consumeOneTimeToken(
  call: Deps,
  text: string,
  kinds: readonly OneTimeTokenKind[],
): Promise<VerifiedToken> {
  const id = idOf(call.cipher, text);
  const [row] = id
    ? await call.em.execute<Row[]>(
        `with owner as (
           select u.id from users u join one_time_tokens t on t.user_id = u.id where t.id = ? for no key update of u)
         delete from one_time_tokens t using owner o
         where t.user_id = o.id and t.id = ? and t.kind in (?) and t.expires_at > ?
         returning t.kind, t.user_id, t.email`,
        [id, id, kinds, call.clock.now()],
      )
    : [];
  return toVerifiedToken(row);
}

/** Makes a user's tokens void: those of some kinds, or all of them. Lock the user first. */
export async function invalidateOneTimeTokens(
  call: Db,
  userId: string,
  kinds: readonly OneTimeTokenKind[] = ONE_TIME_TOKEN_KINDS,
): Promise<void> {
  await call.em.execute("delete from one_time_tokens where user_id = ? and kind in (?)", [userId, kinds]);
}

type Deps = Db & { clock: Clock; cipher: Cipher };
type Row = { kind: OneTimeTokenKind; user_id: string; email: string };

function toVerifiedToken(row: Row | undefined): VerifiedToken {
  if (!row) {
    throw new ServiceError(
      Reason.TOKEN_INVALID,
      "This link is invalid, expired or already used. Please ask for a new one.",
    );
  }
  return { kind: row.kind, userId: row.user_id, email: row.email };
}

function idOf(cipher: Cipher, text: string): string | undefined {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.length !== ID_BYTES + MAC_BYTES) return undefined;
  const id = idOfBytes(bytes); // any 16 bytes that a stranger sends
  return equalSecrets(text, encodeOneTimeToken(cipher, id)) ? id : undefined;
}
