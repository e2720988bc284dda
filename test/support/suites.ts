// Lifetime of fixtures, and suites that run only where their programs are installed.

import { execFileSync } from "node:child_process";
import { afterAll, describe, onTestFinished } from "vitest";

type Closable = { close(): unknown };

/** Closes a fixture after the suite that is being collected. */
export async function forSuite<T extends Closable>(starting: T | Promise<T>): Promise<T> {
  const started = await starting;
  afterAll(() => started.close());
  return started;
}

/** Closes a fixture after the test in progress. The last one closes first. */
export async function forTest<T extends Closable>(starting: T | Promise<T>): Promise<T> {
  const started = await starting;
  onTestFinished(async () => void (await started.close()));
  return started;
}

/**
 * Whether a program is not installed. In CI it counts as installed, so that its absence fails the
 * test.
 */
export function isMissing(program: string): boolean {
  try {
    execFileSync("which", [program], {
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
    });
    return false;
  } catch {
    return !process.env.CI;
  }
}

/**
 * Describes a suite whose set-up runs while it is collected. It is collected only if that is
 * possible.
 */
export function describeIf(isPossible: unknown, name: string, begin: () => Promise<void>): void {
  if (isPossible) describe(name, begin);
  else describe.todo(name);
}

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
