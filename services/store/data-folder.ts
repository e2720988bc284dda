import { accessSync, constants, mkdirSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { startupError } from "./errors.ts";

/** Creates a folder in `DATA_DIR`, or that folder itself, if necessary. @throws Error for operators, if it is not writable */
export function makeDataFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    accessSync(path, constants.W_OK);
  } catch (error) {
    throw startupError("DATA_DIR", error);
  }
}

/** Least free disk space in bytes: the size of the next WAL segment. */
const MIN_FREE_BYTES = 16 * 1024 * 1024;

/** Resolves if a database in this folder has space to write. @throws Error if the disk is nearly full */
export async function checkDiskSpace(path: string): Promise<void> {
  const { bavail, bsize } = await statfs(path);
  if (bavail * bsize < MIN_FREE_BYTES) throw new Error("The disk that DATA_DIR is on is full.");
}
