import { recordAudit } from "../../audit/record.ts";
import type { AppContext, SystemCall } from "../../call.ts";
import { queueEmails } from "../../mail/queue.ts";
import { findAdminKey } from "../../store/api-keys.ts";
import type { Crossing } from "../../store/budgets.ts";
import { findAdmins, User } from "../../store/users.ts";
import { amountText } from "./amounts.ts";

type AnnounceCall = SystemCall & Pick<AppContext, "ai">;

/**
 * Sends an e-mail when budgets have reached their threshold or no longer suffice: to the user, or
 * to all administrators for the deployment. This happens once per counter and period for each of
 * the two.
 */
export async function announceBudgets(
  call: AnnounceCall,
  crossings: readonly Crossing[],
): Promise<void> {
  for (const crossing of crossings) await call.em.transactional(() => announce(call, crossing));
  for (const callback of call.onComplete) callback();
}

async function announce(call: AnnounceCall, crossing: Crossing): Promise<void> {
  const { budgetId: id, scope, unit, period, subject, isExceeded } = crossing;
  const { periodsOf, catalogue } = call.ai;
  const key = scope === "key" ? await findAdminKey(call, subject) : undefined;
  const userId = scope === "key" ? key?.userId : subject;
  const isOfAll = scope === "deployment";
  if (userId === undefined) return; // erased in the meantime
  const limit = amountText(BigInt(crossing.limit), unit);
  const until = periodsOf(call.clock.now()).endsAt[period].toISOString();
  const recipients = isOfAll
    ? await findAdmins(call)
    : await call.em.find(User, { id: userId }, { fields: ["id", "email", "name"] });
  const template = isExceeded ? "budget-exceeded" : "budget-alert";
  const variables = {
    ...{ period, limit, until },
    unit: unit === "cost" ? catalogue.currency : unit,
    whose: isOfAll ? "deployment" : scope === "key" ? "key" : "user",
    ...(key && { key: key.name }),
  };
  await queueEmails(call, recipients, template, variables);
  if (!isExceeded) return;
  const details = { id, scope, unit, period, limit };
  await recordAudit(call, "user.budget_exceeded", {
    userId: isOfAll ? undefined : userId,
    details,
  });
}
