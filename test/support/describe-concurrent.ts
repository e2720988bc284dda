import { describe } from "vitest";

/**
 * A suite for each of several cases, for suites that wait more than they work: they run beside each other, the tests of
 * each one after the other.
 */
export function describeConcurrent<T>(cases: readonly T[], name: string, begin: (each: T) => Promise<void>): void {
  if (cases.length === 0) describe.todo(name);
  describe.concurrent.each(cases)(name, (each) => {
    describe("in turn", { concurrent: false }, () => begin(each));
  });
}
