import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import { issueOneTimeToken } from "../crypto/one-time-tokens.ts";
import { Refusal } from "../platform/errors.ts";
import { readTicket, signTicket } from "../sessions/tokens.ts";

/** A ticket dies with this many wrong codes. */
const MAX_FAILURES = 5;

/** Issues the ticket of a login that waits for its second factor; an older one is void. Joins the transaction. */
export async function issueTicket(
  call: Pick<Call, "em" | "clock" | "config" | "keys">,
  user: { id: string; email: string },
): Promise<string> {
  const createdAt = call.clock.now();
  const lifetimeMs = call.config.ticketMs;
  const id = await issueOneTimeToken(call, { kind: "sign-in", userId: user.id, email: user.email, lifetimeMs });
  const expiresAt = new Date(createdAt.getTime() + lifetimeMs);
  return signTicket(call, { id, userId: user.id, createdAt, expiresAt });
}

/** Looks whose ticket it is, and counts a guess before the code is looked at. @throws Refusal TICKET_INVALID */
export async function presentTicket(call: Call, text: string): Promise<{ id: string; userId: string }> {
  const ticket = await readTicket(call, text);
  const [row] = ticket
    ? await call.em.execute<unknown[]>(
        "update one_time_tokens set failed = failed + 1 where id = ? and failed < ? returning id",
        [ticket.id, MAX_FAILURES],
      )
    : [];
  if (!ticket || !row) throw invalidTicket();
  return ticket;
}

/** Makes sure that the ticket is still there, in the transaction that uses it up. @throws Refusal TICKET_INVALID */
export async function holdTicket(call: Pick<Call, "em">, id: string): Promise<void> {
  const [row] = await call.em.execute<unknown[]>("select id from one_time_tokens where id = ? for update", [id]);
  if (!row) throw invalidTicket();
}

/** Uses a held ticket up. */
export async function consumeTicket(call: Pick<Call, "em">, id: string): Promise<void> {
  await call.em.execute("delete from one_time_tokens where id = ?", [id]);
}

/** The answer to a ticket that is not one. */
export function invalidTicket(): Refusal {
  return new Refusal(Reason.TICKET_INVALID, "The sign-in has expired or was already completed. Please sign in again.");
}
