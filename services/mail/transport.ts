import { readdir, rename, rm, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { createTransport, type SendMailOptions } from "nodemailer";
import type { Logger } from "pino";
import { validate as isUuid } from "uuid";
import type { Config } from "../platform/config/config.ts";
import { makePrivateFolder } from "../store/data-folder.ts";
import { Email } from "../store/emails.ts";
import { lowestId } from "../store/ids.ts";
import type { Db } from "../store/statement.ts";

/**
 * Connections to the SMTP server at most: what Postfix grants a client by default
 * (`smtpd_client_connection_count_limit`). The worker uses more than a few only while deliveries are
 * slow.
 */
export const MAX_CONNECTIONS = 50;
/** E-mails per connection. */
const EMAILS_PER_CONNECTION = 200;

const MINUTE_MS = 60_000;

/** Time limits of an SMTP session, in ms. */
export type MailLimits = {
  /** For the reply to each step. */
  stepMs: number;
  /** From the connection to the end of STARTTLS. Each of its steps is limited as any other. */
  setupMs: number;
};

/**
 * RFC 5321 section 4.5.3.2 names the least time that a client should wait at each step: 5 minutes for
 * the greeting, EHLO, MAIL and RCPT, 2 for DATA, 3 for a block of data and 10 for the reply to the
 * final dot. A server that takes longer than the client waits may have accepted the e-mail, and gets
 * it again. The longest limit serves all steps, since nodemailer has one for them, and each is the
 * least. The set-up has the steps greeting, EHLO, STARTTLS and a handshake.
 */
export const MAIL_LIMITS: MailLimits = { stepMs: 10 * MINUTE_MS, setupMs: 25 * MINUTE_MS };

/** Time limit of a step of `ping`, in ms. Nothing is lost by it. */
const PING_MS = 10_000;

/** A header that is not encoded: the services read its JSON. */
function asItIs(value: string) {
  return { prepared: true, value };
}

/**
 * Headers that ask relays to leave links alone. A rewritten link passes the token to a third party,
 * and often breaks. In this order: Mailgun, Postmark, SendGrid, SparkPost, Mailjet.
 */
const NO_CLICK_TRACKING = {
  "X-Mailgun-Track-Clicks": "no",
  "X-PM-TrackLinks": "None",
  "X-SMTPAPI": asItIs('{"filters":{"clicktrack":{"settings":{"enable":0}}}}'),
  "X-MSYS-API": asItIs('{"options":{"click_tracking":false}}'),
  "X-Mailjet-TrackClick": "0",
};

/** An e-mail as it is rendered, to one recipient. */
export type OutgoingEmail = {
  to: { name: string; address: string };
  subject: string;
  text: string;
  html: string;
  messageId: string;
};

export type MailTransport = {
  /**
   * Resolves when the e-mail is accepted for delivery. Its errors have the SMTP `responseCode`, if
   * there was a reply.
   * @param signal ends the delivery and closes its connection, so that it does not occupy the pool
   */
  send(email: OutgoingEmail, signal: AbortSignal): Promise<void>;
  /** Resolves if e-mails could be delivered now. */
  ping(): Promise<void>;
  close(): void;
};

type MailConfig = Pick<Config, "smtpUrl" | "mailFrom" | "publicUrl" | "dataDir">;

/** Delivers by SMTP or, without a server, writes .eml files and logs links. */
export function createMailTransport(
  config: MailConfig,
  log: Logger,
  { stepMs, setupMs }: MailLimits = MAIL_LIMITS,
): MailTransport {
  const { smtpUrl, mailFrom, dataDir } = config;
  // `Auto-Submitted` prevents out-of-office replies (RFC 3834).
  const headers = { "Auto-Submitted": "auto-generated", ...NO_CLICK_TRACKING };
  const defaults = { from: mailFrom, headers };
  if (!smtpUrl) return createFolderTransport(folderOf(dataDir), defaults, log);
  const server = { url: withName(smtpUrl, config), requireTLS: needsTls(smtpUrl) };
  const pool = createTransport(
    {
      ...server,
      pool: true,
      maxConnections: MAX_CONNECTIONS,
      maxMessages: EMAILS_PER_CONNECTION,
      connectionTimeout: setupMs,
      greetingTimeout: stepMs,
      socketTimeout: stepMs,
    },
    defaults,
  );
  const probe = createTransport({
    ...server,
    connectionTimeout: PING_MS,
    greetingTimeout: PING_MS,
    socketTimeout: PING_MS,
  });
  return {
    send: async (email, signal) => void (await pool.sendMail({ ...encoded(email), signal })),
    ping: async () => void (await probe.verify()),
    close: () => pool.close(),
  };
}

/** The longest line of a message, in bytes (RFC 5322 section 2.1.1). */
const MAX_LINE = 998;

/**
 * Keeps links whole: the library would cut lines of more than 76 characters with quoted-printable. A
 * part of ASCII goes as it is, any other in base64.
 */
function encoded({ text, html, ...email }: OutgoingEmail): SendMailOptions {
  return { ...email, text: { raw: toPart("plain", text) }, html: { raw: toPart("html", html) } };
}

function toPart(subtype: "plain" | "html", content: string): string {
  const lines = content.split("\n");
  const isPlain = lines.every((line) => line.length <= MAX_LINE && /^[\t\x20-\x7e]*$/.test(line));
  const encoding = isPlain ? "7bit" : "base64";
  const bytes = Buffer.from(lines.join("\r\n"));
  const body = isPlain ? lines : (bytes.toString("base64").match(/.{1,76}/g) ?? []);
  return [
    `Content-Type: text/${subtype}; charset=utf-8`,
    `Content-Transfer-Encoding: ${encoding}`,
    "",
    ...body,
  ].join("\r\n");
}

/**
 * The URL with the name that EHLO announces: the one that it has, or a host name of the installation.
 * Strict relays refuse the address that machines without a full name announce (RFC 5321 section
 * 4.1.1.1).
 */
function withName(smtpUrl: string, { publicUrl, mailFrom }: MailConfig): string {
  const url = new URL(smtpUrl);
  if (url.searchParams.get("name")) return smtpUrl;
  const [, domain = ""] = mailFrom.address.split("@");
  const name = [new URL(publicUrl).hostname, domain].find(isHostName);
  if (name) url.searchParams.set("name", name);
  else url.searchParams.delete("name");
  return url.href;
}

/** Whether a host is a name that others may resolve: no address, and not this machine. */
const isHostName = (host: string) =>
  /^[a-z\d-]+(\.[a-z\d-]+)+$/i.test(host) && isIP(host) === 0 && !/(^|\.)localhost$/i.test(host);

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
  makePrivateFolder(folder);
  const transport = createTransport(
    { streamTransport: true, buffer: true, newline: "windows" },
    defaults,
  );
  return {
    async send(email) {
      const { message } = await transport.sendMail(encoded(email));
      const file = join(folder, `${email.messageId.replace(/[<>]/g, "").replace(/@.*/, "")}.eml`);
      await writeFile(`${file}.tmp`, message as Buffer, { mode: 0o600 });
      await rename(`${file}.tmp`, file); // readers of the folder never see a partial file
      const link = /https?:\/\/\S+#token=\S+/.exec(email.text)?.[0];
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
/** What is read of a reply, in characters. */
const MAX_REPLY = 1_000;
const ADDRESS = /[^\s<>()[\],;:"']+@[^\s<>()[\],;:"']+/g;
const LINK = /\b[a-z][a-z\d+.-]*:\/\/\S+|\b[\w-]+(?:\.[\w-]+)+(?::\d+)?\/\S*/gi;
/** Letters and digits in a row that may be a piece of a token. */
const RUN = /[\w+/=-]{8,}/g;
/** Words, joined with hyphens or the like: `non-existent`, `SpamAssassin`, `MAILER-DAEMON`, `TLS_1`. */
const WORDS = /^[-_/=]*(?:(?:[A-Z]?[a-z]+|(?:[A-Z][a-z]{2,})+|[A-Z]+|\d{1,4})(?:[-_/=]+|$))+$/;
const LONGEST_WORD = 30;

/**
 * An error in one line, for logs and for the e-mail log: the text of the mail server if it replied.
 * A reply may quote the e-mail. Addresses, links and what looks like a piece of a token are left out.
 */
export function describeSmtpError(error: unknown): string {
  const { message, response } = error as Partial<Error> & { response?: string };
  const text = (response ?? message ?? String(error)).slice(0, MAX_REPLY);
  const line = text
    .replace(/\r?\n\d{3}[ -]/g, " ") // the code is repeated on each line (RFC 5321 section 4.2.1)
    .replace(/^(\d{3})-/, "$1 ")
    .replace(/=?\r?\n/g, " ")
    .replace(/[\p{C}\s]+/gu, " ")
    .replace(LINK, "…")
    .replace(ADDRESS, "…")
    .replace(RUN, (run) => (run.length <= LONGEST_WORD && WORDS.test(run) ? run : "…"))
    .trim();
  return [...line].slice(0, MAX_ERROR).join("");
}
