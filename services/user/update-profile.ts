import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { User } from "../store/users.ts";

/** Changes name and bio of the caller; undefined leaves a field as it is. */
export async function updateProfile(
  call: SignedInCall,
  changes: { name: string | undefined; bio: string | undefined },
) {
  const { id, name, bio } = call.caller.user;
  if (changes.name === undefined && changes.bio === undefined) return { id, name, bio: bio ?? "" };
  return call.em.transactional(async () => {
    const user = await call.em.findOne(User, { id });
    if (!user) throw new ServiceError(Reason.UNAUTHENTICATED, "This account is gone.");
    user.name = changes.name?.trim() ?? user.name;
    user.bio = changes.bio ?? user.bio ?? null;
    user.updatedAt = call.clock.now();
    await call.em.flush();
    await recordAudit(call, "user.profile_updated", { userId: id });
    return { id, name: user.name, bio: user.bio ?? "" };
  });
}
