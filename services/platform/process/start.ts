import { type Config, type ProcessRole, readConfig } from "../config/config.ts";
import { readLogo } from "./logo-file.ts";
import { readTlsFiles } from "./tls-files.ts";
import { readWellKnown } from "./well-known-files.ts";

/** Exits because the process cannot start, after writing one line per problem to standard error. */
export function refuseStart(problems: string[], exitCode = 1): never {
  process.stderr.write(
    `Gatehouse can't start:\n${problems.map((problem) => `  ${problem}\n`).join("")}`,
  );
  process.exit(exitCode);
}

/**
 * Reads the settings of a process and checks the files they name, before anything is opened. If
 * there are problems, reports all of them and exits.
 * @param checksOf further checks of the files and addresses in the settings; each throws its
 * problem
 */
export async function readConfigOrExit(
  env: NodeJS.ProcessEnv,
  role: ProcessRole,
  checksOf: (config: Config) => (() => unknown)[] = () => [],
): Promise<Config> {
  const { config, problems } = readConfig(env, role);
  const checks = [
    () => readTlsFiles(config.tls),
    () => readLogo(config.appLogo),
    () => readWellKnown(config.wellKnown),
    ...checksOf(config),
  ];
  for (const result of await Promise.allSettled(checks.map(async (check) => check()))) {
    if (result.status === "rejected") problems.push(...result.reason.message.split("\n"));
  }
  return problems.length > 0 ? refuseStart(problems) : config;
}
