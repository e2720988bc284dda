// Temporary folders, removed after the run.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Makes an empty folder, which is removed after the run. */
export const temporaryFolder = (parent = tmpdir()): string =>
  mkdtempSync(join(parent, "gatehouse-"));

/** Makes the folder of all temporary folders before a run, and removes it after the run. */
export function setup(): () => void {
  const folder = temporaryFolder();
  process.env.TMPDIR = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
