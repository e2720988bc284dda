import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** Names that need no encoding in a URL. */
const NAME = /^[\w-][\w.-]*$/;
/** Names below `/.well-known/` that the gateway always serves itself. */
const OWN = ["jwks.json", "change-password"];

/**
 * Reads the files in the directory `WELL_KNOWN`, by name. Skips hidden files, such as those that
 * Kubernetes adds to a volume.
 * @throws Error for operators, with a line per problem
 */
export function readWellKnown(directory: string | undefined): ReadonlyMap<string, Buffer> {
  if (directory === undefined) return new Map();
  const files = filesIn(directory);
  const problems = [...files.keys()].flatMap((name) => {
    if (OWN.includes(name)) return [`WELL_KNOWN: ${name} is served by Gatehouse itself`];
    return NAME.test(name)
      ? []
      : [`WELL_KNOWN: ${name} must have letters, digits, _, - and . only`];
  });
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return files;
}

function filesIn(directory: string): Map<string, Buffer> {
  try {
    const names = readdirSync(directory).filter((name) => !name.startsWith("."));
    const files = names.filter((name) => statSync(join(directory, name)).isFile());
    return new Map(files.map((name) => [name, readFileSync(join(directory, name))]));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`WELL_KNOWN names no directory that can be read (${code})`);
  }
}
