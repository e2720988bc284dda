import { NIL } from "uuid";
import type { AppContext } from "../call.ts";
import { totpContext } from "../mfa/second-factor.ts";
import { SigningKey } from "../store/signing-keys.ts";
import type { Store } from "../store/store.ts";
import { User } from "../store/users.ts";
import { listOutdatedSecrets, replaceSecret } from "../store/webhooks.ts";
import { secretContext } from "../webhooks/deliver.ts";

/** Users per query. */
const BATCH_SIZE = 100;

/** Numbers of secrets that were re-encrypted, and that no key decrypts. */
type Counts = { renewed: number; failed: number };
/** An encrypted secret, and how to replace it in its row unless another process was faster. */
type Sealed = { text: string; context: string; replace(renewed: string): Promise<number> };

/**
 * Re-encrypts, with the first key of `SECRET_KEY`, secrets that were encrypted with an earlier key.
 * Does nothing if there is only one key. Skips secrets that no key decrypts, so that they do not
 * block the others.
 */
export async function reEncrypt(
  { cipher, log }: Pick<AppContext, "cipher" | "log">,
  store: Store,
  signal: AbortSignal,
): Promise<void> {
  if (!cipher.prefix) return;
  const counts: Counts = { renewed: 0, failed: 0 };
  const isNew = { $like: `${cipher.prefix}%` };
  for (const sealed of await sealedKeys(store, isNew)) await renew(cipher, sealed, counts);
  let users = await sealedFactors(store, isNew, NIL);
  while (users.length > 0 && !signal.aborted) {
    for (const sealed of users) await renew(cipher, sealed, counts);
    users = await sealedFactors(store, isNew, users.at(-1)?.userId ?? NIL);
  }
  for (const sealed of await sealedWebhookSecrets(store, cipher.prefix))
    await renew(cipher, sealed, counts);
  const { renewed, failed } = counts;
  if (failed > 0)
    log.error({ count: failed }, "some secrets cannot be decrypted with any key of SECRET_KEY");
  if (renewed > 0)
    log.info({ count: renewed }, "secrets re-encrypted with the first key of SECRET_KEY");
}

type Pattern = { $like: string };

async function sealedKeys(store: Store, isNew: Pattern): Promise<Sealed[]> {
  const keys = await store.fork().find(SigningKey, { $not: { privateKey: isNew } });
  return keys.map(({ kid, privateKey }) => ({
    text: privateKey,
    context: kid,
    replace: (renewed) =>
      store.fork().nativeUpdate(SigningKey, { kid, privateKey }, { privateKey: renewed }),
  }));
}

/** The secrets of webhooks, of which there are few. */
async function sealedWebhookSecrets(store: Store, prefix: string): Promise<Sealed[]> {
  const webhooks = await listOutdatedSecrets({ em: store.fork() }, prefix);
  return webhooks.flatMap(({ id, secret, previousSecret }) =>
    [secret, previousSecret]
      .filter((text) => text !== null && !text.startsWith(prefix))
      .map((text) => ({
        text: text ?? "",
        context: secretContext(id),
        replace: (renewed) => replaceSecret({ em: store.fork() }, id, text ?? "", renewed),
      })),
  );
}

/** The next second factors, in the order of user ids. */
async function sealedFactors(
  store: Store,
  isNew: Pattern,
  after: string,
): Promise<(Sealed & { userId: string })[]> {
  const users = await store
    .fork()
    .find(
      User,
      { $not: { mfaSecret: isNew }, id: { $gt: after } },
      { orderBy: { id: "asc" }, limit: BATCH_SIZE },
    );
  return users.map(({ id, mfaSecret }) => ({
    userId: id,
    text: mfaSecret ?? "",
    context: totpContext(id),
    replace: (renewed) =>
      store.fork().nativeUpdate(User, { id, mfaSecret }, { mfaSecret: renewed }),
  }));
}

async function renew(
  cipher: AppContext["cipher"],
  { text, context, replace }: Sealed,
  counts: Counts,
): Promise<void> {
  let renewed: string;
  try {
    renewed = cipher.encrypt(cipher.decrypt(text, context), context);
  } catch {
    counts.failed += 1;
    return;
  }
  counts.renewed += await replace(renewed);
}
