import { expect, test } from "vitest";
import { OpenList } from "../../../services/platform/process/open-list.ts";

const items = () => ["a", "b", "c", "d"].map((name) => ({ name }));
const namesIn = (list: OpenList<{ name: string }>) => [...list].map(({ name }) => name).sort();

test.each([
  { removed: [0], left: ["b", "c", "d"] },
  { removed: [3], left: ["a", "b", "c"] },
  { removed: [0, 3, 1], left: ["c"] },
  { removed: [1, 1], left: ["a", "c", "d"] },
  { removed: [0, 1, 2, 3], left: [] },
])("OpenList: keeps $left after items $removed are removed", ({ removed, left }) => {
  const list = new OpenList<{ name: string }>();
  const all = items();
  for (const item of all) list.add(item);
  for (const index of removed) list.delete(all[index] as { name: string });
  expect([namesIn(list), list.size]).toEqual([left, left.length]);
});

test("OpenList: says whether an item was in the list", () => {
  const list = new OpenList<{ name: string }>();
  const [own, other] = items() as [{ name: string }, { name: string }];
  list.add(own);
  expect([list.delete(other), list.delete(own), list.delete(own)]).toEqual([false, true, false]);
});

test("OpenList: an iteration reaches every item although each is removed when it is visited", () => {
  const list = new OpenList<{ name: string }>();
  for (const item of items()) list.add(item);
  const seen: string[] = [];
  for (const item of list) {
    seen.push(item.name);
    list.delete(item);
  }
  expect(seen.sort()).toEqual(["a", "b", "c", "d"]);
});
