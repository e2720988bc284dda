import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";

/** The part of a user that a profile update changes. */
export type Profile = { id: string; name: string; bio: string };

/** Changes name and bio of the caller; what is undefined stays. */
export async function updateProfile(
  call: SignedInCall,
  changes: { name: string | undefined; bio: string | undefined },
): Promise<Profile> {
  const { id, name, bio } = call.caller.user;
  if (changes.name === undefined && changes.bio === undefined) return { id, name, bio: bio ?? "" };
  return call.em.transactional(async () => {
    const [row] = await call.em.execute<{ name: string; bio: string | null }[]>(
      "update users set name = coalesce(?, name), bio = coalesce(?, bio), updated_at = ? where id = ? returning name, bio",
      [changes.name?.trim() ?? null, changes.bio ?? null, call.clock.now(), id],
    );
    await recordAudit(call, "user.profile_updated", { userId: id });
    return { id, name: row?.name ?? name, bio: row?.bio ?? "" };
  });
}
