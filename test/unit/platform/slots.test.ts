import { expect, test } from "vitest";
import { createSlotPool } from "../../../services/platform/process/slots.ts";
import { times } from "../../support/tally.ts";

/** A pool, and who was granted its slots so far, in order. */
function poolOf(max: number) {
  const pool = createSlotPool<string>(max);
  const granted: string[] = [];
  const request = (holder: string) => pool.of(holder).request(() => granted.push(holder));
  return { pool, granted, request };
}

test("Slots: at most so many are granted at once, and a released one goes to the next", () => {
  const { pool, granted, request } = poolOf(2);
  for (const holder of ["a", "b", "c"]) request(holder);
  expect(granted).toEqual(["a", "b"]);
  pool.of("a").release();
  expect(granted).toEqual(["a", "b", "c"]);
  for (const holder of ["b", "c"]) pool.of(holder).release();
  for (const holder of ["d", "e", "f"]) request(holder);
  expect(granted).toEqual(["a", "b", "c", "d", "e"]);
});

test("Slots: a holder waits for one slot of a holder with many requests", () => {
  const { pool, granted, request } = poolOf(1);
  for (const _ of times(10, () => 0)) request("flood");
  request("other");
  for (let turn = 0; turn < 3; turn++) pool.of(granted.at(-1) as string).release();
  expect(granted).toEqual(["flood", "flood", "other", "flood"]);
});

test("Slots: those of a holder that has ended are free, and its requests are forgotten", () => {
  const { pool, granted, request } = poolOf(2);
  for (const holder of ["gone", "gone", "gone", "other"]) request(holder);
  pool.remove("gone");
  pool.of("gone").release(); // a message that was on its way
  request("other");
  request("late");
  expect(granted).toEqual(["gone", "gone", "other", "other"]);
});
