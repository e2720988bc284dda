import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readSecretKeys } from "../../../services/crypto/cipher.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

test("Secret key: a folder in its place is refused by name", () => {
  const dataDir = temporaryFolder();
  mkdirSync(join(dataDir, "secret-key"));
  expect(() => readSecretKeys({ secretKey: undefined, dataDir })).toThrow(`${dataDir}/secret-key can't be used`);
});
