import { readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createTransport, type SendMailOptions } from "nodemailer";
import type { Logger } from "pino";
import { validate as isUuid } from "uuid";
import type { Config } from "../platform/config.ts";
import { makeDataFolder } from "../store/data-folder.ts";
import { Email } from "../store/emails.ts";
import { type Db, lowestId } from "../store/store.ts";

/** Concurrent connections to the SMTP server, and e-mails per connection. */
const MAX_CONNECTIONS = 10;
const EMAILS_PER_CONNECTION = 200;
/** Time limits of an SMTP conversation, in ms. */
const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 20_000;
/** Time limit for a whole e-mail, in ms: some servers keep replying and never finish. */
const EMAIL_TIMEOUT_MS = 120_000;

export type MailTransport = {
  /**
   * Resolves when the e-mail is accepted for delivery. Its errors have the SMTP `responseCode`, if
   * there was a reply.
   */
  send(email: SendMailOptions & { messageId: string }): Promise<void>;
  /** Resolves if e-mails could be delivered now. */
  ping(): Promise<void>;
  close(): void;
};

/**
 * Delivers by SMTP or, without a server, writes .eml files and logs links.
 * @param emailMs limit for one e-mail
 */
export function createMailTransport(
  { smtpUrl, mailFrom, dataDir }: Pick<Config, "smtpUrl" | "mailFrom" | "dataDir">,
  log: Logger,
  emailMs = EMAIL_TIMEOUT_MS,
): MailTransport {
  // `Auto-Submitted` prevents out-of-office replies (RFC 3834).
  const defaults = { from: mailFrom, headers: { "Auto-Submitted": "auto-generated" } };
  if (!smtpUrl) return createFolderTransport(folderOf(dataDir), defaults, log);
  const transport = createTransport(
    {
      url: smtpUrl,
      requireTLS: needsTls(smtpUrl),
      pool: true,
      maxConnections: MAX_CONNECTIONS,
      maxMessages: EMAILS_PER_CONNECTION,
      connectionTimeout: CONNECT_TIMEOUT_MS,
      greetingTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: IDLE_TIMEOUT_MS,
    },
    defaults,
  );
  return {
    /** The signal closes the connection too, so that it does not occupy the pool for ever. */
    send: async (email) =>
      void (await transport.sendMail({ ...email, signal: AbortSignal.timeout(emailMs) })),
    ping: async () => void (await transport.verify()),
    close: () => transport.close(),
  };
}

/** A password is sent by TLS only, unless the server is local or the URL says otherwise. */
function needsTls(url: string): boolean {
  const { hostname, password, searchParams } = new URL(url);
  const isLocal = /^(localhost|127\..*|\[::1\])$/.test(hostname);
  return (
    password !== "" && !isLocal && !searchParams.has("requireTLS") && !searchParams.has("ignoreTLS")
  );
}

const folderOf = (dataDir: string) => join(dataDir, "mail");

function createFolderTransport(
  folder: string,
  defaults: SendMailOptions,
  log: Logger,
): MailTransport {
  makeDataFolder(folder);
  const transport = createTransport(
    { streamTransport: true, buffer: true, newline: "windows" },
    defaults,
  );
  return {
    async send(email) {
      const { message } = await transport.sendMail(email);
      const file = join(folder, `${email.messageId.replace(/[<>]/g, "").replace(/@.*/, "")}.eml`);
      await writeFile(`${file}.tmp`, message as Buffer, { mode: 0o600 });
      await rename(`${file}.tmp`, file); // readers of the folder never see a partial file
      const link = /https?:\/\/\S+#token=\S+/.exec(String(email.text))?.[0];
      log.info({ subject: email.subject, file, ...(link && { link }) }, "mail written");
    },
    ping: async () => {},
    close: () => {},
  };
}

/**
 * Deletes the files of e-mails that are no longer stored.
 * @param since earlier ones are of another database
 */
export async function purgeMailFolder(
  { smtpUrl, dataDir }: Pick<Config, "smtpUrl" | "dataDir">,
  db: Db,
  since: Date,
): Promise<void> {
  if (smtpUrl) return;
  const folder = folderOf(dataDir);
  const idOf = (name: string) => name.replace(/\.eml.*/, "");
  const files = (await readdir(folder)).filter(
    (name) => isUuid(idOf(name)) && idOf(name) >= lowestId(since),
  );
  const stored = await db.em.find(Email, { id: { $in: files.map(idOf) } }, { fields: ["id"] });
  const ids = new Set(stored.map(({ id }) => id));
  for (const name of files) if (!ids.has(idOf(name))) await rm(join(folder, name), { force: true });
}

/** Longest error that is kept, in characters. */
const MAX_ERROR = 300;
/** Most words that are kept of a mail server's reply. */
const MAX_WORDS = 25;
/** An SMTP code (RFC 5321, RFC 3463) or a plain word. No useful part of a token looks like one. */
const SAFE_WORD = /^(?:[245]\d\d|[245]\.\d{1,3}\.\d{1,3}|[A-Z]{1,5}|[A-Z]?[a-z']{1,14})[.,;:!]?$/;

/**
 * An error in one line, for logs. A reply may quote the e-mail, so only safe words of its first
 * line are kept.
 */
export function describeSmtpError(error: unknown): string {
  const { message, response } = error as Partial<Error> & { response?: string };
  if (response === undefined)
    return (message ?? String(error)).replace(/\s+/g, " ").slice(0, MAX_ERROR);
  const [line = ""] = response.split(/\r?\n/, 1);
  const words = line.replace(/^(\d{3})-/, "$1 ").split(/\s+/, MAX_WORDS);
  return words.map((word) => (SAFE_WORD.test(word) ? word : "…")).join(" ");
}
