import { v7 as uuid } from "uuid";
import { eraseUser } from "../../../services/accounts/erase-user.ts";
import { openUsageLedger } from "../../../services/ai/usage.ts";
import { silent } from "../../support/log.ts";
import { openQuietStore } from "../../support/stores.ts";
import { insertUsers } from "../../support/users.ts";

export const clock = { now: () => new Date("2026-11-21T12:00:00Z") };

/** Opens an empty database and a ledger on it. */
export async function openUsage(url?: string) {
  const store = await openQuietStore(url);
  await store.migrate();
  const sql = <T>(text: string, values: unknown[] = []) => store.fork().execute<T[]>(text, values);
  const usage = openUsageLedger(store, clock, silent);
  /** Adds a user. @returns the start of its calls */
  const newCall = async () => {
    const email = uuid();
    const [userId = ""] = await insertUsers(store, 1, { email, canonicalEmail: email });
    return { userId, provider: "p", model: "m", inputCharacters: 8 };
  };
  const rowsOf = async ({ userId }: { userId: string }) => {
    await usage.flush();
    return sql("select outcome, input_tokens, output_tokens from ai_usage where user_id = ?", [userId]);
  };
  const erase = (userId: string) => {
    const client = { address: "127.0.0.1", agent: "" };
    const call = { em: store.fork(), clock, client, requestId: "request", caller: undefined };
    return call.em.transactional(() => eraseUser(call, userId));
  };
  return { store, sql, usage, newCall, rowsOf, erase };
}
