import { type Config, type ProcessRole, readConfig } from "../../services/platform/config.ts";

type Env = Record<string, string | undefined>;

/** What is wrong with variables; empty if nothing is. */
export function problemsOf(env: Env, role?: ProcessRole): string[] {
  const read = readConfig(env, role);
  return "problems" in read ? read.problems : [];
}

/** The configuration that variables give. @throws Error with their problems */
export function configOf(env: Env, role?: ProcessRole): Config {
  const read = readConfig(env, role);
  if ("problems" in read) throw new Error(read.problems.join("; "));
  return read.config;
}
