import type { AppContext } from "../call.ts";
import { contextOf } from "../mfa/totp.ts";
import { type EncryptedColumn, readWithoutPrefix, replaceEncrypted } from "../store/encrypted-columns.ts";
import type { Store } from "../store/store.ts";

/** What binds the text of a row to it. */
const CONTEXTS: Record<EncryptedColumn, (id: string) => string> = { totp: contextOf, "signing-key": (kid) => kid };

/** Encrypts with the first key of `SECRET_KEY` what an earlier one has encrypted. Does nothing with one key. */
export async function reEncrypt(
  { cipher, log }: Pick<AppContext, "cipher" | "log">,
  store: Store,
  signal: AbortSignal,
) {
  const { prefix } = cipher;
  if (!prefix) return;
  let count = 0;
  for (const kind of Object.keys(CONTEXTS) as EncryptedColumn[]) {
    for (let after = "", size = 1; size > 0 && !signal.aborted; ) {
      const db = { em: store.fork() };
      const rows = await readWithoutPrefix(db, kind, prefix, after);
      for (const row of rows) {
        const context = CONTEXTS[kind](row.id);
        await replaceEncrypted(db, kind, row, cipher.encrypt(cipher.decrypt(row.sealed, context), context));
      }
      size = rows.length;
      count += size;
      after = rows.at(-1)?.id ?? after;
    }
  }
  if (count > 0) log.info({ count }, "secrets are encrypted with the first key of SECRET_KEY now");
}
