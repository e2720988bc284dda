import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readSecretKeys } from "../../../services/store/secret-keys.ts";
import { accountsAt } from "../../support/accounts.ts";
import { folderMailbox } from "../../support/mail/mailbox.ts";
import { startProgram } from "../../support/processes/programs.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

/** Runs a command as the first process of a container does: it sees no process of others. */
const CONTAINER = ["-pf", "--kill-child", "--mount-proc"];
const LOCK = `
  const { lockDirectory } = await import("./services/store/embedded.ts");
  try { lockDirectory(process.argv[1]); console.log("locked"); setTimeout(() => {}, 60_000); }
  catch (error) { console.log(error.message); }`;

test.skipIf(spawnSync("unshare", [...CONTAINER, "true"]).status !== 0)(
  "Data folder: is refused while a process of another container uses it, and free once that process is killed",
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

test("Data folder: a folder instead of the secret key is rejected by name", () => {
  const dataDir = temporaryFolder();
  mkdirSync(join(dataDir, "secret-key"));
  expect(() => readSecretKeys({ secretKey: undefined, dataDir })).toThrow(
    `${dataDir}/secret-key can't be used`,
  );
});

/** The mode of a file; 0 if the database has deleted it in the meantime. */
const modeOf = (path: string) => (statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o777;

/**
 * The files and folders in a folder that other users may read, write or search, with their modes.
 */
const openIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => ({ name, mode: modeOf(join(folder, name)) }))
    .filter(({ mode }) => (mode & 0o077) !== 0);

test("Data folder: no other user may read database, e-mails and keys, whatever the umask and the previous modes", async () => {
  const folder = join(temporaryFolder(), "data");
  /** Starts the product as a shell with this umask does, on the embedded database. */
  const start = async () => {
    const script = `umask 000; exec "${process.execPath}" gateway/main.ts`;
    const env = { PATH: process.env.PATH, PORT: "0", GRPC_PORT: "0", DATA_DIR: folder };
    const running = await startProgram(
      "sh",
      ["-c", script],
      env,
      (output) => /events on (http:\S+\d)/.exec(output)?.[1],
    );
    onTestFinished(() => running.kill("SIGKILL"));
    return running;
  };
  const first = await start();
  const { email } = await accountsAt(first.found).addUser();
  await folderMailbox(folder).emailTo(email);
  expect(modeOf(folder)).toBe(0o700);
  expect(openIn(folder)).toEqual([]);
  first.kill("SIGTERM");
  expect(await first.ended).toBe(0);
  expect(openIn(folder)).toEqual([]);
  spawnSync("chmod", ["-R", "a+rwX", folder]); // as releases before have left it
  expect(openIn(folder).length).toBeGreaterThan(500);
  const second = await start();
  const opened = openIn(folder).filter(({ name }) => !/^(secret-key|mail.+)$/.test(name)); // always 600
  expect(opened).toEqual([]);
  second.kill("SIGTERM");
  expect(await second.ended).toBe(0);
  expect(readdirSync(folder)).toContain("pg");
});
