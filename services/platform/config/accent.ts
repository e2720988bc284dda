/** Two readable shades of a brand colour, for light and dark backgrounds. */
export type Accent = Readonly<{ light: string; dark: string }>;

type Rgb = readonly [red: number, green: number, blue: number];

/** The background colours of the web app's themes. */
const GROUNDS = { light: "#ffffff", dark: "#131316" } as const;
/**
 * Contrast of a shade with its background. WCAG 2.2 AA requires 4.5; the margin is for tinted
 * backgrounds, such as that of a selected list item.
 */
const CONTRAST = 5.4;
/**
 * Minimum contrast of a brand colour with white. Lighter colours would have to be changed beyond
 * recognition.
 */
const LEAST_CONTRAST = 2;
const STEPS = 100;

/**
 * Derives the shades of a brand colour. It is darkened for a light background and lightened for a
 * dark one, as far as needed for readability.
 * @param color such as `#4f55d2` or `#45d`
 * @returns undefined if it is not such a colour, or hardly differs from white
 */
export function readAccent(color: string): Accent | undefined {
  const rgb = rgbOf(color);
  if (!rgb || contrastOf(rgb, WHITE) < LEAST_CONTRAST) return undefined;
  return {
    light: shadeOf(rgb, rgbOf(GROUNDS.light) ?? WHITE, BLACK),
    dark: shadeOf(rgb, rgbOf(GROUNDS.dark) ?? BLACK, WHITE),
  };
}

const WHITE: Rgb = [255, 255, 255];
const BLACK: Rgb = [0, 0, 0];

/** Mixes a colour with black or white until it has enough contrast with a background. */
function shadeOf(color: Rgb, ground: Rgb, towards: Rgb): string {
  for (let step = 0; step <= STEPS; step++) {
    const mixed = mix(color, towards, step / STEPS);
    if (contrastOf(mixed, ground) >= CONTRAST) return hexOf(mixed);
  }
  return hexOf(towards);
}

function rgbOf(color: string): Rgb | undefined {
  const [, short] = /^#([\da-f]{3})$/i.exec(color) ?? [];
  const [, hex = short?.replace(/./g, "$&$&")] = /^#([\da-f]{6})$/i.exec(color) ?? [];
  if (!hex) return undefined;
  const channel = (index: number) => Number.parseInt(hex.slice(index, index + 2), 16);
  return [channel(0), channel(2), channel(4)];
}

const hexOf = (rgb: Rgb) =>
  `#${rgb.map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;

const mix = (color: Rgb, other: Rgb, share: number): Rgb => {
  const channel = (index: 0 | 1 | 2) =>
    Math.round(color[index] * (1 - share) + other[index] * share);
  return [channel(0), channel(1), channel(2)];
};

/** The contrast ratio of two colours (WCAG 2.2). */
function contrastOf(one: Rgb, other: Rgb): number {
  const [a, b] = [luminanceOf(one), luminanceOf(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** Relative luminance (WCAG 2.2). */
function luminanceOf(rgb: Rgb): number {
  const linear = (channel: number) => {
    const part = channel / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
}
