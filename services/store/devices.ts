import { type Db, firstRow, returnsRow } from "./statement.ts";

/** A browser or app that has signed in to an account. The sign-in statement writes it. */
export type Device = {
  id: string;
  label: string;
  ip: string;
  location: string | null;
  createdAt: Date;
  /** Time of the last sign-in. */
  lastUsedAt: Date;
};

/** A device, and whether a session began on it. */
export type ListedDevice = Device & { current: boolean };

/** The devices of a user, the last used first. `current` is that of the session. */
export const listDevices = (
  { em }: Db,
  userId: string,
  sessionId: string,
): Promise<ListedDevice[]> =>
  em.execute(
    `select d.id, d.label, d.ip, d.location, d.created_at as "createdAt", d.last_used_at as "lastUsedAt",
       coalesce(d.id = (select s.device_id from sessions s where s.id = :sessionId), false) as current
     from devices d where d.user_id = :userId order by d.last_used_at desc, d.id desc`,
    { userId, sessionId },
  );

/** Whether a browser or app has signed in to an account before, and was not forgotten. */
export const isKnownDevice = (db: Db, userId: string, id: string): Promise<boolean> =>
  returnsRow(db, "select id from devices where user_id = :userId and id = :id", { userId, id });

/** The user with a canonical address who has signed in on a browser or app before; undefined if there is none. */
export const findOwnerOfDevice = async (
  db: Db,
  email: string,
  id: string,
): Promise<string | undefined> =>
  (
    await firstRow<{ userId: string }>(
      db,
      `select u.id as "userId" from users u join devices d on d.user_id = u.id
       where u.canonical_email = :email and d.id = :id`,
      { email, id },
    )
  )?.userId;

/**
 * Forgets a device of a user, and the guesses that were counted for it.
 * @returns false if that user has no such device
 */
export const deleteDevice = (db: Db, userId: string, id: string): Promise<boolean> =>
  returnsRow(
    db,
    `with guesses as (delete from attempts where kind = 'device' and subject = :userId || ':' || :id)
     delete from devices where user_id = :userId::uuid and id = :id::uuid returning id`,
    { userId, id },
  );

/** Forgets all devices of a user, and the guesses that were counted for them. */
export async function deleteDevices({ em }: Db, userId: string): Promise<void> {
  await em.execute(
    `with gone as (delete from devices where user_id = :userId returning user_id || ':' || id as subject)
     delete from attempts where kind = 'device' and subject in (select subject from gone)`,
    { userId },
  );
}
