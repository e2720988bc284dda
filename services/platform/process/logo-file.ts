import { readFileSync } from "node:fs";

/** The logo of an installation. */
export type Logo = { type: "image/svg+xml" | "image/png"; content: Buffer };

/** Maximum size, in bytes. Browsers load the logo with every page. */
const MAX_BYTES = 256 * 1024;
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const SVG = /^(?:\s|<\?xml[^>]*>|<!--[\s\S]*?-->|<!DOCTYPE[^>]*>)*<svg[\s>]/i;

/**
 * Reads the file of `APP_LOGO`.
 * @returns undefined if none is configured
 * @throws Error for operators
 */
export function readLogo(path: string | undefined): Logo | undefined {
  if (path === undefined) return undefined;
  const content = readNamed(path);
  if (content.length > MAX_BYTES) throw new Error("APP_LOGO must have at most 256 KiB");
  if (content.subarray(0, PNG.length).equals(PNG)) return { type: "image/png", content };
  if (SVG.test(content.toString("utf8"))) return { type: "image/svg+xml", content };
  throw new Error("APP_LOGO must be an SVG or PNG file");
}

function readNamed(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`APP_LOGO names no file that can be read (${code})`);
  }
}
