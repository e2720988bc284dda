import { type Db, firstRow, returnsRow } from "./statement.ts";

/** A browser or app that has signed in to an account. Written by the sign-in statement. */
export type Device = {
  id: string;
  label: string;
  ip: string;
  location: string | null;
  createdAt: Date;
  /** Time of the last sign-in. */
  lastUsedAt: Date;
};

/** A device, and whether it is the one of the caller's session. */
export type ListedDevice = Device & { current: boolean };

/**
 * Lists the devices of a user, most recently used first. `current` marks the one of the session.
 */
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

/** Whether a browser or app has signed in to an account before and has not been forgotten since. */
export const isKnownDevice = (db: Db, userId: string, id: string): Promise<boolean> =>
  returnsRow(db, "select id from devices where user_id = :userId and id = :id", { userId, id });

/**
 * Finds the user with a canonical address, if that user has signed in with the given browser or app
 * before.
 */
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
 * Removes a device of a user and its guesses.
 * @returns false if that user has no such device
 */
export const deleteDevice = (db: Db, userId: string, id: string): Promise<boolean> =>
  returnsRow(
    db,
    `with guesses as (delete from attempts where kind = 'device' and subject = :userId || ':' || :id)
     delete from devices where user_id = :userId::uuid and id = :id::uuid returning id`,
    { userId, id },
  );

/** Removes all devices of a user and their guesses. */
export async function deleteDevices({ em }: Db, userId: string): Promise<void> {
  await em.execute(
    `with gone as (delete from devices where user_id = :userId returning user_id || ':' || id as subject)
     delete from attempts where kind = 'device' and subject in (select subject from gone)`,
    { userId },
  );
}
