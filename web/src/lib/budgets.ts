import type { Budget } from "@gatehouse/client";
import { money, number, t } from "./language.svelte.ts";

/** An amount of a budget, such as "€20.00" or "1,000 tokens". */
export const amountOf = ({ currency }: Pick<Budget, "currency">, amount = "0"): string =>
  currency ? money(amount, currency) : t("budgets.tokens", { count: number(Number(amount)) });

/** Whose calls a budget limits. */
export function scopeOf({ scope, subject, user, keyName }: Budget, isOwn: boolean): string {
  if (scope === "key") return t("budgets.ofKey", { name: keyName ?? "" });
  if (isOwn) return t("budgets.own");
  if (scope === "deployment") return t("budgets.ofAll");
  if (scope === "role") return t(subject === "admin" ? "budgets.ofAdmins" : "budgets.ofUsers");
  return user?.name ?? "";
}
