import { afterAll, onTestFinished } from "vitest";

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
