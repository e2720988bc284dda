import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createTransport, type SendMailOptions } from "nodemailer";
import type { Logger } from "pino";
import type { Config } from "../platform/config.ts";
import { makeDataFolder } from "../store/data-folder.ts";

/** Connections to the SMTP server at once, and letters per connection. */
const CONNECTIONS = 10;
const LETTERS_PER_CONNECTION = 200;
/** Time limits of an SMTP conversation, in ms. */
const CONNECT_TIMEOUT_MS = 10_000;
const SILENCE_TIMEOUT_MS = 20_000;
/** A whole letter's: some servers never fall silent and never come to an end. */
const LETTER_TIMEOUT_MS = 120_000;

/** What all letters have in common; nobody's out-of-office reply shall answer one (RFC 3834). */
const letterhead = (from: Config["mail"]["from"]) => ({ from, headers: { "Auto-Submitted": "auto-generated" } });

/** Hands letters over to whoever delivers them. */
export type MailTransport = {
  /** Resolves when the letter is in safe hands. Its errors carry the SMTP `responseCode` where there was one. */
  send(letter: SendMailOptions & { messageId: string }): Promise<void>;
  /** Resolves when letters could be handed over now. */
  ping(): Promise<void>;
  close(): void;
};

/**
 * SMTP where a server is named; else a folder of .eml files, the links in the log.
 * @param letterMs how long handing over one letter may take
 */
export function createMailTransport(
  { mail, dataDir }: Pick<Config, "mail" | "dataDir">,
  log: Logger,
  letterMs = LETTER_TIMEOUT_MS,
): MailTransport {
  return mail.smtpUrl ? bySmtp(mail.smtpUrl, mail.from, letterMs) : toFolder({ mail, dataDir }, log);
}

function bySmtp(url: string, from: Config["mail"]["from"], letterMs: number): MailTransport {
  const open = () =>
    createTransport(
      {
        url,
        requireTLS: needsTls(url),
        pool: true,
        maxConnections: CONNECTIONS,
        maxMessages: LETTERS_PER_CONNECTION,
        connectionTimeout: CONNECT_TIMEOUT_MS,
        greetingTimeout: CONNECT_TIMEOUT_MS,
        socketTimeout: SILENCE_TIMEOUT_MS,
      },
      letterhead(from),
    );
  let transport = open();
  /** Leaves a pool whose conversations don't end to itself: they would hold its places for ever. */
  const leave = (stuck: typeof transport) => {
    if (stuck !== transport) return;
    transport = open();
    stuck.close();
  };
  return {
    async send(letter) {
      const mine = transport;
      const late = Promise.withResolvers<never>();
      const timer = setTimeout(() => {
        leave(mine);
        late.reject(new Error("the mail server did not come to an end"));
      }, letterMs);
      try {
        await Promise.race([mine.sendMail(letter), late.promise]);
      } finally {
        clearTimeout(timer);
      }
    },
    ping: async () => void (await transport.verify()),
    close: () => transport.close(),
  };
}

/** A password goes to a server by TLS or not at all, unless that is this machine or the URL decides. */
function needsTls(url: string): boolean {
  const { hostname, password, searchParams } = new URL(url);
  const isOwn = /^(localhost|127\..*|\[::1\])$/.test(hostname);
  return password !== "" && !isOwn && !searchParams.has("requireTLS") && !searchParams.has("ignoreTLS");
}

function toFolder({ mail, dataDir }: Pick<Config, "mail" | "dataDir">, log: Logger): MailTransport {
  const folder = join(dataDir, "mail");
  makeDataFolder(folder);
  const transport = createTransport({ streamTransport: true, buffer: true, newline: "windows" }, letterhead(mail.from));
  return {
    async send(letter) {
      const { message } = await transport.sendMail(letter);
      const file = join(folder, `${letter.messageId.replace(/[<>]/g, "").replace(/@.*/, "")}.eml`);
      await writeFile(`${file}.tmp`, message as Buffer, { mode: 0o600 });
      await rename(`${file}.tmp`, file); // whoever watches the folder sees whole letters
      const link = /https?:\/\/\S+#token=\S+/.exec(String(letter.text))?.[0];
      log.info({ subject: letter.subject, file, ...(link && { link }) }, "mail written");
    },
    ping: async () => {},
    close: () => {},
  };
}
