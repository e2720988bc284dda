import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The files of a folder, by their paths from the root. */
export const sourcesIn = (folder: string, end = ".ts") =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(end))
    .map((name) => ({ path: join(folder, name), text: readFileSync(join(folder, name), "utf8") }));
