import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/**
 * Unpacks the commit before the newest migration, with the installed packages.
 * @returns its folder; the current one without a history, as in a shallow clone
 */
export function unpackPreviousRelease(): string {
  const git = (...args: string[]) =>
    execFileSync("git", args, { maxBuffer: 2 ** 28, stdio: ["ignore", "pipe", "ignore"] });
  try {
    const newest = git("log", "-1", "--diff-filter=A", "--format=%H", "--", "services/store/migrations")
      .toString()
      .trim();
    const archive = git("archive", `${newest}^`);
    const folder = mkdtempSync(join(tmpdir(), "gatehouse-previous-"));
    execFileSync("tar", ["-x", "-C", folder], { input: archive });
    if (!existsSync(join(folder, "node_modules"))) symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
    return folder;
  } catch {
    return process.cwd();
  }
}
