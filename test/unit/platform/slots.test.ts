import { expect, test } from "vitest";
import { createSlotPool, type Slots } from "../../../services/platform/process/slots.ts";
import { times } from "../../support/tally.ts";

/** A pool, and who was granted its slots so far, in order. */
function poolOf(max: number) {
  const pool = createSlotPool<string>(max);
  const holders = new Map<string, Slots>();
  const of = (holder: string): Slots => {
    const slots = holders.get(holder) ?? pool.add(holder);
    holders.set(holder, slots);
    return slots;
  };
  const granted: string[] = [];
  const request = (holder: string) => of(holder).request(() => granted.push(holder));
  return { pool, of, granted, request };
}

test("Slots: at most the limit is granted at the same time, and a released one goes to the next", () => {
  const { of, granted, request } = poolOf(2);
  for (const holder of ["a", "b", "c"]) request(holder);
  expect(granted).toEqual(["a", "b"]);
  of("a").release();
  expect(granted).toEqual(["a", "b", "c"]);
  for (const holder of ["b", "c"]) of(holder).release();
  for (const holder of ["d", "e", "f"]) request(holder);
  expect(granted).toEqual(["a", "b", "c", "d", "e"]);
});

test("Slots: a holder waits for one slot of a holder with many requests", () => {
  const { of, granted, request } = poolOf(1);
  for (const _ of times(10, () => 0)) request("flood");
  request("other");
  for (let turn = 0; turn < 3; turn++) of(granted.at(-1) as string).release();
  expect(granted).toEqual(["flood", "flood", "other", "flood"]);
});

test("Slots: those of an ended holder are free, and its requests are forgotten", () => {
  const { pool, of, granted, request } = poolOf(2);
  for (const holder of ["gone", "gone", "gone", "other"]) request(holder);
  pool.remove("gone");
  of("gone").release(); // a message that was on its way
  request("other");
  request("late");
  expect(granted).toEqual(["gone", "gone", "other", "other"]);
});

test("Slots: an ended holder gets none for a request that was on its way", () => {
  const { pool, of, granted, request } = poolOf(1);
  request("gone");
  pool.remove("gone");
  of("gone").request(() => granted.push("too late"));
  request("other");
  expect(granted).toEqual(["gone", "other"]);
});
