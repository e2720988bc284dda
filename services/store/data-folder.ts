import { accessSync, constants, mkdirSync } from "node:fs";
import { unusable } from "./errors.ts";

/** Makes a folder in `DATA_DIR`, or that itself, unless it is there. @throws Error for operators, if it can't be written to */
export function makeDataFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    accessSync(path, constants.W_OK);
  } catch (error) {
    throw unusable("DATA_DIR", error);
  }
}
