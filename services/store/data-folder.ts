import { accessSync, chmodSync, constants, lstatSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { startupError } from "./errors.ts";

/** Modes that exclude other users of the machine, whatever the umask. */
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

/**
 * Creates `DATA_DIR` if necessary. An existing folder keeps its mode, since it may contain other
 * things.
 * @throws Error for operators if it is not writable
 */
export function makeDataFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
    accessSync(path, constants.W_OK);
  } catch (error) {
    throw startupError("DATA_DIR", error);
  }
}

/**
 * Creates a folder in `DATA_DIR`, if necessary, that only this user can read.
 * @throws Error for operators if it is not writable
 */
export function makePrivateFolder(path: string): void {
  makeDataFolder(path);
  setMode(path, FOLDER_MODE);
}

/**
 * Removes other users' access to a file, or to a folder and everything in it. Links are skipped.
 */
export function restrict(path: string): void {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (!stats || stats.isSymbolicLink()) return;
  setMode(path, stats.isDirectory() ? FOLDER_MODE : FILE_MODE);
  if (stats.isDirectory()) for (const name of readdirSync(path)) restrict(join(path, name));
}

function setMode(path: string, mode: number): void {
  try {
    chmodSync(path, mode);
  } catch {} // owned by another user, or a file system without modes
}
