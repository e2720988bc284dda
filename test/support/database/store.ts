// The store of the services without the services.

import { v7 as uuid } from "uuid";
import { openStore } from "../../../services/store/open-store.ts";
import type { Store } from "../../../services/store/store.ts";
import { User } from "../../../services/store/users.ts";
import { silent } from "../log.ts";
import { times } from "../tally.ts";

/** Opens a store that logs nothing: on PostgreSQL by its URL, and else in memory. */
export const openQuietStore = (url?: string, limits: { statementMs?: number } = {}) =>
  openStore(url === undefined ? { kind: "memory" } : { kind: "postgres", url, ...limits }, silent);

/**
 * Inserts users who cannot sign in.
 * @returns their ids
 */
export async function insertUsers(
  store: Pick<Store, "fork">,
  count: number,
  given: Partial<User> = {},
) {
  const now = new Date();
  const dates = { passwordChangedAt: now, termsAcceptedAt: now, createdAt: now, updatedAt: now };
  const common = { name: "Ann", role: "user", passwordHash: "-", ...dates, ...given };
  const users = times(count, (i) => {
    const email = `${i + 1}@example.com`;
    return { id: uuid(), email, canonicalEmail: email, ...common };
  });
  await store.fork().insertMany(User, users as User[]);
  return users.map(({ id }) => id);
}
