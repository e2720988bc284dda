import type { Db } from "./store.ts";

/** The columns with text that `SECRET_KEY` encrypts. */
const COLUMNS = {
  totp: { table: "users", key: "id", column: "mfa_secret" },
  "signing-key": { table: "signing_keys", key: "kid", column: "private_key" },
};

/** A kind of encrypted text. */
export type EncryptedColumn = keyof typeof COLUMNS;

/** Reads up to a hundred rows, in order of their ids, whose encrypted text does not start with a prefix. */
export function readWithoutPrefix({ em }: Db, kind: EncryptedColumn, prefix: string, after: string) {
  const { table, key, column } = COLUMNS[kind];
  return em.execute<{ id: string; sealed: string }[]>(
    `select ${key}::text as id, ${column} as sealed from ${table}
     where ${column} is not null and not starts_with(${column}, ?) and ${key}::text > ? order by ${key}::text limit 100`,
    [prefix, after],
  );
}

/** Replaces encrypted text, unless it has changed. */
export async function replaceEncrypted(
  { em }: Db,
  kind: EncryptedColumn,
  row: { id: string; sealed: string },
  sealed: string,
): Promise<void> {
  const { table, key, column } = COLUMNS[kind];
  const sql = `update ${table} set ${column} = ? where ${key}::text = ? and ${column} = ?`;
  await em.execute(sql, [sealed, row.id, row.sealed]);
}
