import type { SignedInCall } from "../call.ts";
import { type ListedSession, listOpenSessions } from "../store/sessions.ts";
import { requireUser } from "./admin-user.ts";

/** Lists a user's open sessions, newest first. @throws ServiceError NOT_FOUND */
export async function listUserSessions(
  call: Pick<SignedInCall, "em" | "clock">,
  userId: string,
): Promise<ListedSession[]> {
  await requireUser(call, userId);
  return listOpenSessions(call, userId, call.clock.now());
}
