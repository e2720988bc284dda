// Budgets of a test, and what they have used.

import { expect } from "vitest";
import type { SignedIn } from "../accounts.ts";
import type { TestApp } from "../app.ts";
import { until } from "../until.ts";

export type BudgetForm = {
  scope?: string;
  subject?: string;
  unit?: string;
  period?: string;
  limit: string | number;
};

type BudgetsApp = Pick<TestApp, "signIn" | "signInAdmin">;

/** Sets a budget: by default of a user, in tokens a month. */
export async function setBudget(app: BudgetsApp, form: BudgetForm): Promise<{ id: string }> {
  const admin = await app.signInAdmin();
  const usual = { scope: "user", unit: "tokens", period: "month" };
  const { status, body } = await admin.put("/admin/budgets", { ...usual, ...form });
  expect([status, body]).toEqual([200, expect.anything()]);
  return body.budget;
}

/** A new user with its own budget. */
export async function withBudget(app: BudgetsApp, form: BudgetForm): Promise<SignedIn> {
  const account = await app.signIn();
  await setBudget(app, { subject: account.user.id, ...form });
  return account;
}

/** The caller's only budget, once every call of the caller has been booked. */
export const settledBudget = ({ get }: Pick<SignedIn, "get">) =>
  until("all calls to be booked", async () => {
    const { body } = await get("/user/budgets");
    return body[0]?.reserved === "0" ? body[0] : undefined;
  });

/** The amount that it has used by then. */
export const usedBy = async (account: Pick<SignedIn, "get">): Promise<string> =>
  (await settledBudget(account)).used;

/** The only row of the usage of the caller. */
export const usageOf = async ({ get }: Pick<SignedIn, "get">) => (await get("/user/usage")).body[0];
