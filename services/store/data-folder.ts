import { accessSync, constants, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
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

/**
 * Locks the embedded database's folder for this process: PGlite would let two processes write the same files.
 * The lock names its owner by process id and start time, so a lock left behind by `kill -9` is recognised, even if
 * another process has the id now.
 * @returns a function that releases the lock
 * @throws Error if a running process holds it
 */
export function lockDirectory(path: string): () => void {
  makeDataFolder(path);
  const lock = join(path, "lock");
  const own = `${process.pid} ${startTime(process.pid)}`;
  const draft = `${lock}.${process.pid}`;
  writeFileSync(draft, own, { mode: 0o600 });
  try {
    for (let tries = 0; ; tries++) {
      try {
        linkSync(draft, lock); // atomic: fails if the lock exists
        return () => rmSync(lock, { force: true });
      } catch {
        if (tries > 0 || isHeld(lock)) {
          throw new Error(`The folder ${path} is in use by another Gatehouse process. Stop it, or set DATA_DIR.`);
        }
        rmSync(lock, { force: true });
      }
    }
  } finally {
    rmSync(draft, { force: true });
  }
}

function isHeld(lock: string): boolean {
  const [pid, started] = readFileSync(lock, "utf8").split(" ");
  const running = startTime(Number(pid));
  return running !== undefined && running === started;
}

/** When a process started, in clock ticks; undefined if it is not running. Without /proc: only whether it is running. */
function startTime(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]; // field 22, counted after the name, which may contain spaces
  } catch {
    if (process.platform === "linux") return undefined;
  }
  try {
    process.kill(pid, 0);
    return "running";
  } catch {
    return undefined;
  }
}
