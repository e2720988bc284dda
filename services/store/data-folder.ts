import { accessSync, constants, mkdirSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { startupError } from "./errors.ts";

/** Makes a folder in `DATA_DIR`, or that itself, unless it is there. @throws Error for operators, if it can't be written to */
export function makeDataFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    accessSync(path, constants.W_OK);
  } catch (error) {
    throw startupError("DATA_DIR", error);
  }
}

/** PostgreSQL may need as much at any moment, for the next file of its log. */
const MIN_FREE_BYTES = 16 * 1024 * 1024;

/** Resolves when a database in this folder can go on writing. @throws Error when the disk is about to be full */
export async function checkDiskSpace(path: string): Promise<void> {
  const { bavail, bsize } = await statfs(path);
  if (bavail * bsize < MIN_FREE_BYTES) throw new Error("The disk that DATA_DIR is on is full.");
}
