import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { SignedInCall } from "../call.ts";
import type { ListedSession } from "../store/sessions.ts";

/** Maps a session to its message. The caller's own is in use now, whatever has been written so far. */
export function sessionMessage(row: ListedSession, { caller, clock }: Pick<SignedInCall, "caller" | "clock">) {
  const current = row.id === caller.session.id;
  return {
    id: row.id,
    device: row.device,
    ip: row.ip,
    ...(row.location != null && { location: row.location }),
    createdAt: timestampFromDate(row.createdAt),
    lastActive: timestampFromDate(current ? clock.now() : row.lastActiveAt),
    current,
    ...(row.isImpersonation && { impersonated: true }),
  };
}
