import { execFileSync, spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../support/temporary-folder.ts";

/**
 * A small separate disk; undefined if none can be created.
 * @param size as mount takes it
 */
export function mountDisk(size: string): string | undefined {
  const path = temporaryFolder();
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", path], {
      stdio: "ignore",
    });
    return path;
  } catch {
    return undefined;
  }
}

export const unmountDisk = (path: string) => void execFileSync("umount", ["--lazy", path]);

/**
 * Writes until there is no space left.
 * @returns what makes space again
 */
export function fillDisk(path: string): () => void {
  spawnSync("dd", ["if=/dev/zero", `of=${join(path, "fill")}`, "bs=1M"]); // others may write meanwhile
  return () => rmSync(join(path, "fill"));
}
