import { randomBytes } from "node:crypto";
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../platform/config.ts";
import { makeDataFolder } from "../store/data-folder.ts";

const BYTES = 32;

/** The deployment's secret key: `SECRET_KEY`, or one made once and kept in `DATA_DIR` (mode 600). @returns 32 bytes */
export function readSecretKey({ secretKey, dataDir }: Pick<Config, "secretKey" | "dataDir">): Buffer {
  if (secretKey) return Buffer.from(secretKey, "base64");
  const file = join(dataDir, "secret-key");
  const draft = `${file}.${process.pid}`;
  makeDataFolder(dataDir);
  writeFileSync(draft, randomBytes(BYTES).toString("base64"), { mode: 0o600 });
  try {
    linkSync(draft, file); // whole, or not at all; whoever comes first wins
  } catch {
    // it exists: that is the key
  } finally {
    rmSync(draft, { force: true });
  }
  const key = Buffer.from(readFileSync(file, "utf8"), "base64");
  if (key.length !== BYTES) throw new Error(`${file} does not hold ${BYTES} bytes in base64.`);
  return key;
}
