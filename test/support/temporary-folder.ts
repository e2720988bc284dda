import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Before a run: makes the folder of everything temporary that its tests make. After it: takes it away. */
export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-tests-"));
  process.env.TMPDIR = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
