import type { ServiceError } from "../../platform/rpc/errors.ts";
import type { BudgetCounter, BudgetScope } from "../../store/budgets.ts";

/** How long a refusal is remembered, in ms, so that a flood of refused calls locks no counters. */
const REFUSAL_MS = 1_000;
const MAX_REFUSALS = 10_000;

/** What a call needs: so much of a counter, named by `counterOf`. */
export type Need = { of: string; need: bigint };

/** The name of a counter: budgets of both periods, or of user and role, share it. */
export const counterOf = ({ subject, unit }: Pick<BudgetCounter, "subject" | "unit">): string =>
  `${subject} ${unit}`;

/** A refusal that also applies to calls that need as much of the same counters. */
type Refusal = {
  need: bigint;
  /** Whether it applies to every call that uses the counter: too little is left for any. */
  isForAll?: boolean;
  /** @param model the first one of the call that has no price */
  error: (model: string) => ServiceError;
  /** That of the budget, if one has too little left. */
  scope?: BudgetScope;
};

type Remembered = Refusal & { until: number };

/**
 * Creates the memory of the calls that budgets have just refused. Budgets may change in other
 * processes, so each refusal is asked for again after a second.
 */
export function createRefusals() {
  const refusals = new Map<string, Remembered>();
  const matching = (needs: readonly Need[]): Remembered[] => {
    if (refusals.size === 0) return [];
    return needs.flatMap(({ of, need }) => {
      const refusal = refusals.get(of);
      return refusal && need >= refusal.need ? [refusal] : [];
    });
  };
  return {
    remember(of: string, refusal: Refusal): void {
      if (refusals.size >= MAX_REFUSALS) refusals.clear();
      refusals.set(of, { ...refusal, until: performance.now() + REFUSAL_MS });
    },
    /** Finds the refusal of a call that needed no more. */
    find(needs: readonly Need[]): Refusal | undefined {
      return matching(needs).find(({ until }) => performance.now() <= until);
    },
    /**
     * Renews the expired refusals that apply to a call which is about to ask the database: the calls
     * after it wait for its result.
     * @returns whether there were any
     */
    renew(needs: readonly Need[]): boolean {
      const now = performance.now();
      const expired = matching(needs).filter(({ until }) => now > until);
      for (const refusal of expired) refusal.until = now + REFUSAL_MS;
      return expired.length > 0;
    },
    /** Finds a refusal of every call that uses a counter of these subjects. */
    findForAll(subjects: readonly string[]): Refusal | undefined {
      if (refusals.size === 0) return undefined;
      for (const subject of subjects)
        for (const unit of ["tokens", "cost"] as const) {
          const refusal = refusals.get(counterOf({ subject, unit }));
          if (refusal?.isForAll && performance.now() <= refusal.until) return refusal;
        }
      return undefined;
    },
    /**
     * Forgets the refusals that do not apply any more.
     * @param needs those that were met just now
     */
    forgetMet(needs: readonly Need[]): void {
      for (const { of, need } of needs) {
        const refusal = refusals.get(of);
        if (refusal?.isForAll || (refusal && need >= refusal.need)) refusals.delete(of);
      }
    },
    clear: () => refusals.clear(),
  };
}
