import { expect, test } from "vitest";
import { createLimits } from "../../services/security/limits.ts";
import { times } from "../until.ts";

/** More than one process counts. */
const ACCOUNTS = 100_001;

test("an address stays limited however many accounts it invents", async () => {
  const start = new Date();
  const limits = createLimits(undefined, { now: () => start });
  const windowMs = 60_000;
  let letIn = 0;
  for (const account of times(ACCOUNTS, String)) {
    const { remaining } = await limits.take([
      { key: "address", most: 3, windowMs },
      { key: `address:account:${account}`, most: 5, windowMs },
    ]);
    if (remaining >= 0) letIn++;
  }
  expect(letIn).toBe(3);
});
