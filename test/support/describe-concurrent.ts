import { describe } from "vitest";

/**
 * Describes a suite for each case. The suites run concurrently, the tests of a suite one after the
 * other.
 */
export function describeConcurrent<T>(
  cases: readonly T[],
  name: string,
  begin: (each: T) => Promise<void>,
): void {
  if (cases.length === 0) describe.todo(name);
  describe.concurrent.each(cases)(name, (each) => {
    describe("one by one", { concurrent: false }, () => begin(each));
  });
}
