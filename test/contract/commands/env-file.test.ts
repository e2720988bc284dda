import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const script = `
  import { loadEnvFile } from ${JSON.stringify(resolve("services/platform/process/env-file.ts"))};
  loadEnvFile(process.env);
  const { FIRST, SECOND, TAKEN } = process.env;
  process.stdout.write(JSON.stringify([FIRST, SECOND, TAKEN]));`;

/** FIRST, SECOND and TAKEN of a process in a folder with this `.env`. */
async function readFrom(file: string | Buffer): Promise<unknown> {
  const cwd = temporaryFolder();
  writeFileSync(join(cwd, ".env"), file);
  const args = ["--input-type=module", "--eval", script];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd,
    env: { TAKEN: "before" },
  });
  return JSON.parse(stdout);
}

test.each([
  ["plain", "FIRST=1\nSECOND=2 # two\nTAKEN=after\n"],
  ["from Windows, with a byte order mark", "\uFEFFFIRST=1\r\nSECOND=2\r\n"],
  ["written for a shell", "export FIRST='1'\nexport SECOND=\"2\"\n"],
])(".env: is read from a file that is %s", async (_how, text) => {
  expect(await readFrom(text)).toEqual(["1", "2", "before"]);
});

test(".env: an encoding that would lose variables is rejected", async () => {
  const stderr = "Gatehouse can't start:\n  .env can't be read: it must be UTF-8\n";
  await expect(readFrom(Buffer.from("FIRST=1\n", "utf16le"))).rejects.toMatchObject({
    code: 1,
    stderr,
  });
});
