import { randomBytes } from "node:crypto";
import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../platform/config/config.ts";
import { makeDataFolder } from "./data-folder.ts";
import { startupError } from "./errors.ts";

/**
 * The secret keys of a deployment, if it has any. Undefined if the service would generate one.
 * @returns 32 bytes each
 */
export function findSecretKeys(
  config: Pick<Config, "secretKey" | "dataDir">,
): Buffer[] | undefined {
  const exists = config.secretKey !== undefined || existsSync(join(config.dataDir, KEY_FILE));
  return exists ? readSecretKeys(config) : undefined;
}

const BYTES = 32;

const KEY_FILE = "secret-key";

/**
 * The secret keys of a deployment: `SECRET_KEY`, or one generated once into `DATA_DIR` (mode 600).
 * @returns 32 bytes each
 */
export function readSecretKeys({
  secretKey,
  dataDir,
}: Pick<Config, "secretKey" | "dataDir">): Buffer[] {
  if (secretKey) return secretKey.map((key) => Buffer.from(key, "base64"));
  const file = join(dataDir, KEY_FILE);
  const draft = `${file}.${process.pid}`;
  makeDataFolder(dataDir);
  writeFileSync(draft, randomBytes(BYTES).toString("base64"), { mode: 0o600 });
  try {
    linkSync(draft, file); // atomic: the first of several processes wins
  } catch {
    // it already exists
  } finally {
    rmSync(draft, { force: true });
  }
  try {
    const key = Buffer.from(readFileSync(file, "utf8"), "base64");
    if (key.length !== BYTES) throw new Error(`it does not contain ${BYTES} bytes in base64`);
    return [key];
  } catch (error) {
    throw startupError(file, error);
  }
}
