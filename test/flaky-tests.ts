import type { Reporter, TestCase } from "vitest/node";

/** The number of tests of a run that may need a second attempt. */
const TOLERATED = 5;

/**
 * Lists the tests that passed at their second attempt only. CI makes a second attempt, so that a
 * race in one test does not block an unrelated change. Such tests must be repaired: more than five
 * fail the run.
 */
export class FlakyTests implements Reporter {
  readonly #found: string[] = [];

  onTestCaseResult(test: TestCase): void {
    if (!test.diagnostic()?.flaky) return;
    const stacks = test.result().errors?.map(({ stack, message }) => stack ?? message) ?? [];
    this.#found.push([`${test.module.relativeModuleId} > ${test.fullName}`, ...stacks].join("\n"));
  }

  onTestRunEnd(): void {
    if (this.#found.length === 0) return;
    process.stderr.write(`Passed at the second attempt only:\n${this.#found.join("\n")}\n`);
    if (this.#found.length > TOLERATED) process.exitCode = 1;
  }
}
