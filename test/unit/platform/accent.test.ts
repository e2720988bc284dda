import { expect, test } from "vitest";
import { readAccent } from "../../../services/platform/config/accent.ts";
import { readConfig } from "../../../services/platform/config/config.ts";

const LINEAR = (value: number) =>
  value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;

/** Relative luminance (WCAG 2.2). */
function luminanceOf(hex: string): number {
  const [red = 0, green = 0, blue = 0] = (hex.match(/[\da-f]{2}/gi) ?? []).map((part) =>
    LINEAR(Number.parseInt(part, 16) / 255),
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
function contrastOf(one: string, other: string): number {
  const [low = 0, high = 0] = [luminanceOf(one), luminanceOf(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

const COLORS = [
  "#4f55d2",
  "#000000",
  "#e11d48",
  "#0ea5e9",
  "#f97316",
  "#16a34a",
  "#a3a3a3",
  "#45d",
];

test.each(COLORS)("Accent %s: both shades are readable on their background", (color) => {
  const accent = readAccent(color);
  expect(contrastOf(accent?.light ?? "", "#ffffff")).toBeGreaterThan(4.5);
  expect(contrastOf(accent?.dark ?? "", "#131316")).toBeGreaterThan(4.5);
});

test("Accent: a readable colour is unchanged", () => {
  expect(readAccent("#4338CA")?.light).toBe("#4338ca");
});

test.each(["#ffffff", "#ffe600", "#eee", "red", "#12345", "url(x)"])(
  "APP_ACCENT=%s: is rejected at the start",
  (APP_ACCENT) => {
    expect(readConfig({ APP_ACCENT }).problems).toEqual([
      "APP_ACCENT must be a colour such as #4f55d2, with a contrast of at least 2 to white",
    ]);
  },
);
