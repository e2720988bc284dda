/** The accent colour of the theme, as CSS names it. */
export const ACCENT = "var(--accent)";
/** The colour of failures. */
export const FAILED = "#c2372a";

/** Colours that can be told apart, on light and on dark backgrounds. */
const OTHERS = ["#0d9488", "#d97706", "#db2777", "#0284c7", "#7c3aed", "#5b60d6"];
/** Least distance of two hues that can be told apart, in degrees. */
const DISTANCE = 20;
/** Greyer colours have no hue: they differ from all others. */
const LEAST_CHROMA = 0.15;

/**
 * The colours of the series of a chart: the accent colour of the installation, and those that can
 * be told apart from it.
 * @param accent such as `#4f55d2`
 */
export const seriesColors = (accent: string): string[] => [
  ACCENT,
  ...OTHERS.filter((color) => areDistinct(accent, color)),
];

/**
 * The colours of what succeeded and what failed. An accent colour that looks like a failure is not
 * used.
 */
export const outcomeColors = (accent: string): string[] => [
  areDistinct(accent, FAILED) ? ACCENT : "#0284c7",
  FAILED,
];

function areDistinct(one: string, other: string): boolean {
  const [a, b] = [hueOf(one), hueOf(other)];
  if (a === undefined || b === undefined) return true;
  const distance = Math.abs(a - b);
  return Math.min(distance, 360 - distance) >= DISTANCE;
}

/** The hue of a colour, in degrees; undefined for grey. */
function hueOf(color: string): number | undefined {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map(
    (at) => Number.parseInt(color.slice(at, at + 2), 16) / 255,
  );
  const highest = Math.max(red, green, blue);
  const chroma = highest - Math.min(red, green, blue);
  if (chroma < LEAST_CHROMA) return undefined;
  if (highest === red) return (60 * ((green - blue) / chroma) + 360) % 360;
  return highest === green ? 60 * ((blue - red) / chroma + 2) : 60 * ((red - green) / chroma + 4);
}
