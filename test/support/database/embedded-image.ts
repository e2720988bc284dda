// Takes the place of PGlite's prepared image in this process: an embedded database that has all
// migrations starts in a fraction of the time. Processes that tests start have PGlite's own.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { onceInRun } from "../once.ts";

const SCRIPT = join(import.meta.dirname, "make-image.ts");

let image: Promise<Blob> | undefined;

/** The image, by the name that PGlite's package has for it. */
export function dataDir(): Promise<Blob> {
  image ??= readImage();
  return image;
}

async function readImage(): Promise<Blob> {
  const path = join(tmpdir(), "embedded.tar"); // in the folder of the run
  await onceInRun("embedded-image", () => promisify(execFile)(process.execPath, [SCRIPT, path]));
  return new Blob([readFileSync(path)], { type: "application/x-tar" });
}
