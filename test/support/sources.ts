import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Words that hide the subject of a sentence, or metaphors where the field has a term. */
export const UNCLEAR =
  /\b(?:whoever|nobody|told|asked|takes nothing|for want of|patience|somebody's|for a person|nothing to say)\b/i;

/** The files of a folder, by their paths from the root. */
export const sourcesIn = (folder: string, end = ".ts") =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(end))
    .map((name) => ({ path: join(folder, name), text: readFileSync(join(folder, name), "utf8") }));
