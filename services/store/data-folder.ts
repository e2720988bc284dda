import { accessSync, constants, mkdirSync } from "node:fs";
import { startupError } from "./errors.ts";

/**
 * Creates a folder in `DATA_DIR`, or that folder itself, if necessary.
 * @throws Error for operators, if it is not writable
 */
export function makeDataFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    accessSync(path, constants.W_OK);
  } catch (error) {
    throw startupError("DATA_DIR", error);
  }
}
