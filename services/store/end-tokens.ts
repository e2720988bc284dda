import type { Db } from "./store.ts";

/** Ends every session, one-time token and signing key, so that no token of the past is valid. @returns open sessions that ended */
export async function endAllTokens({ em }: Db, now: Date): Promise<number> {
  const [row] = await em.execute<{ ended: number }[]>(
    `with ended as (update sessions set revoked_at = ? where revoked_at is null returning expires_at),
       tokens as (delete from one_time_tokens),
       keys as (delete from signing_keys)
     select count(*) filter (where expires_at > ?)::int as ended from ended`,
    [now, now],
  );
  return row?.ended ?? 0;
}
