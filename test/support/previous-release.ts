import { execFileSync } from "node:child_process";
import { existsSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { temporaryFolder } from "./temporary-folder.ts";

/**
 * Unpacks the commit before the newest migration, with the installed packages.
 * @returns its folder; the current folder in a clone without history
 */
export function unpackPreviousRelease(): string {
  const git = (...args: string[]) =>
    execFileSync("git", args, { maxBuffer: 2 ** 28, stdio: ["ignore", "pipe", "ignore"] });
  try {
    const newest = git("log", "-1", "--diff-filter=A", "--format=%H", "--", "services/store/migrations")
      .toString()
      .trim();
    const archive = git("archive", `${newest}^`);
    const folder = temporaryFolder();
    execFileSync("tar", ["-x", "-C", folder], { input: archive });
    if (!existsSync(join(folder, "node_modules"))) symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
    return folder;
  } catch {
    return process.cwd();
  }
}
