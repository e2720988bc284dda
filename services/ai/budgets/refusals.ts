import type { ServiceError } from "../../platform/rpc/errors.ts";
import type { BudgetScope } from "../../store/budgets.ts";

/** How long a refusal is remembered, in ms, so that a flood of refused calls locks no counters. */
const REFUSAL_MS = 1_000;
const MAX_REFUSALS = 10_000;

/** What a call needs: so much of a counter, which is named by its subject and unit. */
export type Need = { of: string; need: bigint };

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

/**
 * Creates the memory of the calls that budgets have just refused. Budgets may change in other
 * processes, so each refusal is asked for again after a second.
 */
export function createRefusals() {
  const refusals = new Map<string, Refusal & { until: number }>();
  return {
    remember(of: string, refusal: Refusal): void {
      if (refusals.size >= MAX_REFUSALS) refusals.clear();
      refusals.set(of, { ...refusal, until: performance.now() + REFUSAL_MS });
    },
    /**
     * Finds the refusal of a call that needed no more. Of the calls after its time, the first finds
     * none: it asks, and the others wait for what it finds.
     */
    find(needs: readonly Need[]): Refusal | undefined {
      for (const { of, need } of needs) {
        const refusal = refusals.get(of);
        if (!refusal || need < refusal.need) continue;
        const now = performance.now();
        if (now <= refusal.until) return refusal;
        refusal.until = now + REFUSAL_MS;
      }
      return undefined;
    },
    /** Finds a refusal of every call that uses a counter of these subjects. */
    findForAll(subjects: readonly string[]): Refusal | undefined {
      if (refusals.size === 0) return undefined;
      for (const subject of subjects)
        for (const unit of ["tokens", "cost"]) {
          const refusal = refusals.get(`${subject} ${unit}`);
          if (refusal?.isForAll && performance.now() <= refusal.until) return refusal;
        }
      return undefined;
    },
    /** Forgets the refusals that do not apply any more, since a call has passed. */
    forgetPassed(needs: readonly Need[]): void {
      for (const { of, need } of needs) {
        const refusal = refusals.get(of);
        if (refusal?.isForAll || (refusal && need >= refusal.need)) refusals.delete(of);
      }
    },
    clear: () => refusals.clear(),
  };
}
