import { expect, test } from "vitest";
import { LOCKS } from "../../services/store/store.ts";

test("Advisory locks: every lock has a number of its own", () => {
  const numbers = Object.values(LOCKS);
  expect(new Set(numbers).size).toBe(numbers.length);
});
