import { expect, test } from "vitest";
import { ACCENT, FAILED, outcomeColors, seriesColors } from "../../../web/src/lib/series-colors.ts";

test("Colours of a chart: the accent colour is the first, and no other looks like it", () => {
  expect(seriesColors("#4f55d2")).toEqual([
    ACCENT,
    "#0d9488",
    "#d97706",
    "#db2777",
    "#0284c7",
    "#7c3aed",
  ]);
  expect(seriesColors("#a15700")).not.toContain("#d97706");
  expect(seriesColors("#a15700")).toContain("#5b60d6");
  expect(seriesColors("#6a6a6a")).toHaveLength(7);
});

test.each(["#d40028", "#e11d48"])("Colours of a chart: %s does not look like a failure", (red) => {
  expect(outcomeColors(red)).not.toContain(ACCENT);
  expect(outcomeColors("#4f55d2")).toEqual([ACCENT, FAILED]);
});
