import { type ProcessRole, readConfig, requireConfig } from "../../services/platform/config.ts";

type Env = Record<string, string | undefined>;

/** What is wrong with variables; empty if nothing is. */
export function problemsOf(env: Env, role?: ProcessRole): string[] {
  return readConfig(env, role).problems;
}

/** The configuration that variables give. @throws Error with their problems */
export const configOf = (env: Env, role?: ProcessRole) => requireConfig(env, role);
