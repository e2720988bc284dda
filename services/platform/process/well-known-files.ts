import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** A name that a route can have as it is. */
const NAME = /^[\w-][\w.-]*$/;
/** What is served below `/.well-known/` in any case. */
const OWN = ["jwks.json", "change-password"];

/**
 * Reads the files in the folder of `WELL_KNOWN`, by name. Hidden ones are not ours: Kubernetes keeps its own next to
 * those of a volume.
 * @throws Error for operators, with a line per problem
 */
export function readWellKnown(folder: string | undefined): ReadonlyMap<string, Buffer> {
  if (folder === undefined) return new Map();
  const names = namesIn(folder).filter((name) => !name.startsWith("."));
  const problems = names.flatMap((name) => {
    if (OWN.includes(name)) return [`WELL_KNOWN: ${name} is served by Gatehouse itself`];
    return NAME.test(name) ? [] : [`WELL_KNOWN: ${name} must have letters, digits, _, - and . only`];
  });
  if (problems.length > 0) throw new Error(problems.join("\n"));
  const paths = names.map((name) => [name, join(folder, name)] as const);
  const files = paths.filter(([, path]) => statSync(path).isFile());
  return new Map(files.map(([name, path]) => [name, readFileSync(path)]));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`WELL_KNOWN names no directory that can be read (${code})`);
  }
}
