import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit.ts";
import type { Call } from "../call.ts";
import { Refusal } from "../refusal.ts";
import { consumeOneTimeToken } from "../security/one-time-tokens.ts";

/** Takes the mailed proof of a new account's address. @throws Refusal TOKEN_INVALID */
export async function verifyEmail(call: Call, token: string): Promise<void> {
  await call.em.transactional(async () => {
    const { userId, email } = await consumeOneTimeToken(call, token, ["verify-email"]);
    const now = call.clock.now();
    const changed = await call.em.execute<unknown[]>(
      `update users set email_verified_at = coalesce(email_verified_at, ?), updated_at = ?
       where id = ? and email = ? returning id`,
      [now, now, userId, email],
    );
    if (changed.length === 0) throw new Refusal(Reason.TOKEN_INVALID, "This link belongs to an older e-mail address.");
    await recordAudit(call, "auth.email_verified", { userId });
  });
}
