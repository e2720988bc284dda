import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type {
  AdjustBudgetRequest,
  ListBudgetsRequest,
  SetBudgetRequest,
} from "../../../gen/gatehouse/ai/v1/budget_pb.ts";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertStillAdmin } from "../../accounts/guards.ts";
import { recordAudit } from "../../audit/record.ts";
import type { SessionCall } from "../../call.ts";
import { invalid, ServiceError } from "../../platform/rpc/errors.ts";
import { findAdminKey } from "../../store/api-keys.ts";
import type { BudgetPeriod, BudgetScope, BudgetUnit } from "../../store/budgets.ts";
import { canonicalId, newId } from "../../store/ids.ts";
import {
  adjustCounter,
  type BudgetKey,
  type BudgetRow,
  countUsage,
  deleteBudget,
  findBudget,
  type ListedBudget,
  listBudgets,
  lockBudget,
  upsertBudget,
} from "../../store/managed-budgets.ts";
import { lockUser } from "../../store/users.ts";
import { amountText, readAmount } from "./amounts.ts";
import type { Periods } from "./periods.ts";

const DEFAULT_ALERT_PERCENT = 80;
/**
 * More budgets than a caller can have: four of their own and of the role, and four of each API key.
 */
const MAX_OWN = 100;

/** Lists budgets, newest first. */
export async function listAllBudgets(call: SessionCall, request: ListBudgetsRequest) {
  const { scope, userId } = request;
  const periods = periodsOf(call);
  const filter = { scope, userId: userId && canonicalId(userId) };
  const page = await listBudgets(call, filter, periods.starts, request);
  return { ...page, items: page.items.map((budget) => messageOf(call, budget, periods)) };
}

/** The budgets that limit the caller's calls, without that of the deployment. */
export async function listOwnBudgets(call: SessionCall) {
  const periods = periodsOf(call);
  const filter = { userId: call.principal.user.id };
  const { items } = await listBudgets(call, filter, periods.starts, { limit: MAX_OWN });
  return items.map(({ user, ...budget }) => messageOf(call, { ...budget, user: null }, periods));
}

/**
 * Creates a budget, or changes the one with the same scope, subject, unit and period.
 * @throws ServiceError NOT_FOUND, VALIDATION_FAILED, FORBIDDEN
 */
export async function setBudget(call: SessionCall, request: SetBudgetRequest) {
  const key = keyOf(request);
  const limit = amountOf("limit", request.limit, key.unit);
  await call.ai.usage.flush();
  const periods = periodsOf(call);
  const budget = await call.em.transactional(async () => {
    const ownerId = await lockSubject(call, key);
    await assertStillAdmin(call);
    const before = await lockBudget(call, key);
    const alertPercent = request.alertPercent ?? before?.alertPercent ?? DEFAULT_ALERT_PERCENT;
    const row = { ...key, id: newId(call.clock.now()), limit: String(limit), alertPercent };
    const id = await upsertBudget(call, row);
    const { period } = key;
    const started = { startedAt: periods.beganAt[period], day: periods.starts[period] };
    if (request.fromUsage) await countUsage(call, { ...row, id }, started);
    const details = {
      ...detailsOf({ ...row, id }),
      alertPercent,
      ...(before && { limitBefore: amountText(BigInt(before.limit), key.unit) }),
      ...(request.fromUsage && { fromUsage: true }),
    };
    await recordAudit(call, "admin.budget_set", { userId: ownerId, details });
    return findBudget(call, id, periods.starts);
  });
  call.ai.budgets.forget();
  return messageOf(call, budget as ListedBudget, periods);
}

/** @throws ServiceError NOT_FOUND, FORBIDDEN */
export async function removeBudget(call: SessionCall, id: string): Promise<void> {
  await call.em.transactional(async () => {
    await assertStillAdmin(call);
    const found = await findBudget(call, canonicalId(id), periodsOf(call).starts);
    const deleted = found && (await deleteBudget(call, found.id));
    if (!deleted) throw budgetNotFound();
    const data = { userId: found.user?.id, details: detailsOf(deleted) };
    await recordAudit(call, "admin.budget_deleted", data);
  });
  call.ai.budgets.forget();
}

/**
 * Corrects the usage of a budget in the current period.
 * @throws ServiceError NOT_FOUND, VALIDATION_FAILED, FORBIDDEN
 */
export async function adjustBudget(call: SessionCall, request: AdjustBudgetRequest) {
  const periods = periodsOf(call);
  const userId = request.subject && canonicalId(request.subject);
  const adjusted = await call.em.transactional(async () => {
    const user = userId ? await lockUser(call, userId) : undefined;
    await assertStillAdmin(call);
    const found = await findBudget(call, canonicalId(request.id), periods.starts);
    if (!found) throw budgetNotFound();
    const { id, scope, unit, period } = found;
    if ((scope === "role") !== (userId !== undefined))
      throw invalid(
        "subject",
        "must be the id of a user for the budget of a role, and absent for other budgets",
      );
    if (scope === "role" && !user)
      throw new ServiceError(Reason.NOT_FOUND, "There is no such user.");
    const used = amountOf("used", request.used, unit);
    const counter = { id, subject: userId ?? found.subject, day: periods.starts[period] };
    const before = await adjustCounter(call, { ...counter, used: String(used) });
    const details = {
      ...detailsOf(found),
      usedBefore: amountText(BigInt(before), unit),
      used: amountText(used, unit),
      reason: request.reason,
    };
    await recordAudit(call, "admin.budget_adjusted", { userId: userId ?? found.user?.id, details });
    return findBudget(call, id, periods.starts, userId ?? null);
  });
  call.ai.budgets.forget();
  return messageOf(call, adjusted as ListedBudget, periods);
}

const periodsOf = ({ ai, clock }: SessionCall): Periods => ai.periodsOf(clock.now());

function keyOf({ scope, subject = "", unit, period }: SetBudgetRequest): BudgetKey {
  const isId = scope === "user" || scope === "key";
  return {
    scope: scope as BudgetScope,
    subject: isId ? canonicalId(subject) : subject,
    unit: unit as BudgetUnit,
    period: period as BudgetPeriod,
  };
}

/** @throws ServiceError VALIDATION_FAILED */
function amountOf(field: string, text: string, unit: BudgetUnit): bigint {
  const amount = readAmount(text, unit);
  if (amount !== undefined) return amount;
  throw invalid(
    field,
    unit === "cost"
      ? "must be at most 1,000,000, with at most nine decimal places"
      : "must be a whole number of tokens, at most 1,000,000,000,000,000",
  );
}

/**
 * Locks the user whom a budget concerns, who must not be erased in the meantime.
 * @returns the user's id; undefined for a role and the deployment
 * @throws ServiceError NOT_FOUND
 */
async function lockSubject(
  call: SessionCall,
  { scope, subject }: BudgetKey,
): Promise<string | undefined> {
  if (scope === "deployment" || scope === "role") return undefined;
  const key = scope === "key" ? await findAdminKey(call, subject) : undefined;
  const userId = scope === "key" ? key?.userId : subject;
  if (userId && (await lockUser(call, userId))) return userId;
  throw new ServiceError(
    Reason.NOT_FOUND,
    scope === "key" ? "There is no such API key." : "There is no such user.",
  );
}

const budgetNotFound = () => new ServiceError(Reason.NOT_FOUND, "There is no such budget.");

/** The fields that identify a budget in the audit log. */
const detailsOf = ({ id, scope, subject, unit, period, limit }: BudgetRow) => ({
  ...{ id, scope, unit, period },
  ...(subject !== "" && { subject }),
  limit: amountText(BigInt(limit), unit),
});

function messageOf(
  { ai }: Pick<SessionCall, "ai">,
  { subject, limit, used, reserved, user, keyName, ...budget }: ListedBudget,
  { beganAt, endsAt }: Periods,
) {
  const { unit, period } = budget;
  const text = (amount: string) => amountText(BigInt(amount), unit);
  return {
    ...budget,
    limit: text(limit),
    ...(subject !== "" && { subject }),
    ...(unit === "cost" && { currency: ai.catalogue.currency }),
    ...(used !== null && { used: text(used) }),
    ...(reserved !== null && { reserved: text(reserved) }),
    startedAt: timestampFromDate(beganAt[period]),
    resetsAt: timestampFromDate(endsAt[period]),
    ...(user && { user }),
    ...(keyName !== null && { keyName }),
  };
}
