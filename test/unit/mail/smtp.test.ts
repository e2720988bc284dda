import { createServer, type Socket } from "node:net";
import { SMTPServer } from "smtp-server";
import { expect, test } from "vitest";
import { createMailTransport } from "../../../services/mail/transport.ts";
import { silent } from "../../support/log.ts";
import { listen } from "../../support/network/sockets.ts";
import { times } from "../../support/tally.ts";

const PACE_MS = 50;
const LETTER_MS = 2_000;
/** The connections of the pool. */
const LETTERS = 10;

/** A transport to a server, and a mail. */
function openSender(smtpUrl: string, address = "ann@example.com") {
  const mailFrom = { name: "", address: "us@example.com" };
  const publicUrl = "http://localhost:8080";
  const sender = createMailTransport({ smtpUrl, mailFrom, publicUrl, dataDir: "" }, silent);
  const to = { name: "", address };
  const email = { to, subject: "Hello", text: "Hello.", html: "<p>Hello.</p>", messageId: "<1@x>" };
  const send = () => sender.send(email, AbortSignal.timeout(LETTER_MS));
  return { send, close: () => sender.close() };
}

test("SMTP: a server that never ends its reply delays an e-mail for a bounded time only", async () => {
  const sockets = new Set<Socket>();
  let isTarpit = true;
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    socket.write("220 ready\r\n");
    let isData = false;
    socket.setEncoding("utf8").on("data", (lines: string) => {
      if (isTarpit) return drip(socket);
      if (isData && !lines.endsWith("\r\n.\r\n")) return;
      isData = /^DATA/im.test(lines);
      socket.write(isData ? "354 go on\r\n" : "250 ok\r\n");
    });
  });
  const { send, close } = openSender(`smtp://127.0.0.1:${await listen(server)}`);
  const startedAt = performance.now();
  for (const { status } of await Promise.allSettled(times(LETTERS, send)))
    expect(status).toBe("rejected");
  expect(performance.now() - startedAt).toBeLessThan(10 * LETTER_MS);
  isTarpit = false;
  await send();
  close();
  for (const socket of sockets) socket.destroy();
  server.close();
});

/** Sends a reply without a last line. */
function drip(socket: Socket): void {
  const timer = setInterval(() => socket.write("250-wait\r\n"), PACE_MS);
  socket.once("close", () => clearInterval(timer));
}

test("SMTP: an e-mail has one recipient, whatever its address", async () => {
  const recipients: string[] = [];
  const server = new SMTPServer({
    disabledCommands: ["STARTTLS", "AUTH"],
    onRcptTo({ address }, _session, done) {
      recipients.push(address);
      done();
    },
  });
  const url = `smtp://127.0.0.1:${await listen(server.server)}`;
  const odd = openSender(url, "me@evil.example,ann@example.com");
  await Promise.allSettled([odd.send()]); // a server may not accept it
  const usual = openSender(url);
  await usual.send();
  for (const { close } of [odd, usual]) close();
  await new Promise<void>((resolve) => server.close(resolve));
  expect(recipients).toContain("ann@example.com");
  expect(recipients).not.toContain("me@evil.example");
});

test("SMTP: the password is sent without TLS only to this machine, or if the URL allows it", async () => {
  const users: string[] = [];
  const server = new SMTPServer({
    disabledCommands: ["STARTTLS"],
    allowInsecureAuth: true,
    onAuth({ username }, _session, done) {
      users.push(username ?? "");
      done(null, { user: username });
    },
  });
  const port = await listen(server.server);
  const send = async (url: string) => {
    const sender = openSender(url);
    const [{ status }] = await Promise.allSettled([sender.send()]);
    sender.close();
    return status;
  };
  const elsewhere = `smtp://elsewhere:secret@0.0.0.0:${port}`; // this server, by an address that is not the name of this machine
  expect(await send(elsewhere)).toBe("rejected");
  expect(users).toEqual([]);
  expect(await send(`${elsewhere.replace("elsewhere", "allowed")}?requireTLS=false`)).toBe(
    "fulfilled",
  );
  expect(await send(`smtp://near:secret@127.0.0.1:${port}`)).toBe("fulfilled");
  expect(users).toEqual(["allowed", "near"]);
  await new Promise<void>((resolve) => server.close(resolve));
});
