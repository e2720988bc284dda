import { expect, test } from "vitest";
import { LOCKS } from "../../services/store/locks.ts";

test("every advisory lock is one thing's alone", () => {
  const numbers = Object.values(LOCKS);
  expect(new Set(numbers).size).toBe(numbers.length);
});
