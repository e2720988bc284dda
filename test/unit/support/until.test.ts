import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { runSql } from "../../support/database/databases.ts";
import { folderMailbox } from "../../support/mail/mailbox.ts";
import { freePort } from "../../support/network/sockets.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

/** Waits for what appears after some looks. */
async function untilAfter<T>(look: () => T | Promise<T>, appear: () => void) {
  let looks = 0;
  return until("what appears", () => {
    if (++looks === 3) appear();
    return look();
  });
}

const folder = () => join(temporaryFolder(), "later");

test("until: waits for a file that does not exist yet", async () => {
  const file = folder();
  const read = () => readFileSync(file, "utf8");
  expect(await untilAfter(read, () => writeFileSync(file, "it"))).toBe("it");
});

test("until: waits for a folder that does not exist yet", async () => {
  const path = folder();
  const read = () => readdirSync(path).length === 0;
  expect(await untilAfter(read, () => mkdirSync(path))).toBe(true);
});

test.each([
  ["fetch", (port: string) => fetch(`http://127.0.0.1:${port}/`)],
  ["a query", (port: string) => runSql(`postgres://127.0.0.1:${port}/none`, "select 1")],
])("until: waits for a port on which nobody listens yet, for %s", async (_how, look) => {
  const port = await freePort();
  const server = createServer((socket) =>
    socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
  );
  onTestFinished(() => void server.close());
  const found = untilAfter(
    () =>
      look(port).then(
        () => "answered",
        (error) => (error.code || error.cause?.code ? Promise.reject(error) : "answered"),
      ),
    () => server.listen(Number(port), "127.0.0.1"),
  );
  expect(await found).toBe("answered");
});

test("until: other errors end it immediately, and a timeout names what was missing", async () => {
  const fail = () => {
    throw new Error("broken");
  };
  await expect(until("a failure", fail)).rejects.toThrow("broken");
  const file = folder();
  await expect(until("the file", () => readFileSync(file), 50)).rejects.toMatchObject({
    message: "waited 50 ms in vain for the file",
    cause: { code: "ENOENT" },
  });
});

test("Mailbox: a missing folder has no e-mails yet", async () => {
  const dataDir = folder();
  const mailbox = folderMailbox(dataDir);
  expect(await mailbox.emailsTo("ann@example.com")).toEqual([]);
  const waiting = mailbox.emailTo("ann@example.com");
  mkdirSync(join(dataDir, "mail"), { recursive: true });
  writeFileSync(join(dataDir, "mail/1.eml"), "To: ann@example.com\r\nSubject: Hi\r\n\r\nHi.\r\n");
  expect(await waiting).toMatchObject({ subject: "Hi" });
  rmSync(dataDir, { recursive: true });
});
