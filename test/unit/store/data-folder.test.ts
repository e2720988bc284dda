import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readSecretKeys } from "../../../services/crypto/cipher.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

/** Runs a command as the first process of a container does: it sees no process of others. */
const CONTAINER = ["-pf", "--kill-child", "--mount-proc"];
const LOCK = `
  const { lockDirectory } = await import("./services/store/embedded.ts");
  try { lockDirectory(process.argv[1]); console.log("locked"); setTimeout(() => {}, 60_000); }
  catch (error) { console.log(error.message); }`;

test.skipIf(spawnSync("unshare", [...CONTAINER, "true"]).status !== 0)(
  "Data folder: is refused while a process of another container uses it, and free once that is killed",
  async () => {
    const folder = temporaryFolder();
    const lock = async () => {
      const child = spawn("unshare", [
        ...CONTAINER,
        process.execPath,
        "--input-type=module",
        "-e",
        LOCK,
        folder,
      ]);
      onTestFinished(() => void child.kill("SIGKILL"));
      return { child, said: String((await once(child.stdout, "data"))[0]).trim() };
    };
    const first = await lock();
    expect(first.said).toBe("locked");
    expect((await lock()).said).toContain("is in use by another Gatehouse process");
    first.child.kill("SIGKILL");
    await once(first.child, "exit");
    expect((await lock()).said).toBe("locked");
  },
);

test("Data folder: a folder in the place of the secret key is refused by name", () => {
  const dataDir = temporaryFolder();
  mkdirSync(join(dataDir, "secret-key"));
  expect(() => readSecretKeys({ secretKey: undefined, dataDir })).toThrow(
    `${dataDir}/secret-key can't be used`,
  );
});
