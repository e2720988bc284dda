import { NIL } from "uuid";
import type { AppContext } from "../call.ts";
import { totpContext } from "../mfa/second-factor.ts";
import { SigningKey } from "../store/signing-keys.ts";
import type { Store } from "../store/store.ts";
import { User } from "../store/users.ts";

/** Users per query. */
const BATCH_SIZE = 100;

/**
 * Encrypts with the first key of `SECRET_KEY` what an earlier one has encrypted. Does nothing with
 * one key. It passes over a secret that no key decrypts: the others must not wait for it until the
 * old key is gone.
 */
export async function reEncrypt(
  { cipher, log }: Pick<AppContext, "cipher" | "log">,
  store: Store,
  signal: AbortSignal,
) {
  if (!cipher.prefix) return;
  const isNew = { $like: `${cipher.prefix}%` };
  const renew = (sealed: string, context: string) => {
    try {
      return cipher.encrypt(cipher.decrypt(sealed, context), context);
    } catch {
      return undefined;
    }
  };
  const page = { orderBy: { id: "asc" }, limit: BATCH_SIZE } as const;
  const findUsers = (after: string = NIL) =>
    store.fork().find(User, { $not: { mfaSecret: isNew }, id: { $gt: after } }, page);
  let count = 0;
  let failed = 0;
  // each statement changes nothing if another process was faster
  for (const { kid, privateKey } of await store
    .fork()
    .find(SigningKey, { $not: { privateKey: isNew } })) {
    const renewed = renew(privateKey, kid);
    if (renewed)
      count += await store
        .fork()
        .nativeUpdate(SigningKey, { kid, privateKey }, { privateKey: renewed });
    else failed += 1;
  }
  for (
    let users = await findUsers();
    users.length > 0 && !signal.aborted;
    users = await findUsers(users.at(-1)?.id)
  ) {
    for (const { id, mfaSecret } of users) {
      const renewed = renew(mfaSecret ?? "", totpContext(id));
      if (renewed)
        count += await store.fork().nativeUpdate(User, { id, mfaSecret }, { mfaSecret: renewed });
      else failed += 1;
    }
  }
  if (failed > 0) log.error({ count: failed }, "no key of SECRET_KEY decrypts some secrets");
  if (count > 0) log.info({ count }, "secrets are encrypted with the first key of SECRET_KEY now");
}
