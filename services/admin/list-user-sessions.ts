import type { SignedInCall } from "../call.ts";
import { listOpenSessions, type OpenSession } from "../sessions/list-sessions.ts";
import { requireUser } from "./admin-user.ts";

/** Lists a user's open sessions, newest first. @throws ServiceError NOT_FOUND */
export async function listUserSessions(
  call: Pick<SignedInCall, "em" | "clock">,
  userId: string,
): Promise<OpenSession[]> {
  await requireUser(call, userId);
  return listOpenSessions(call, userId);
}
