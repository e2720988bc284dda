import { readdir, rename, rm, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { createTransport, type SendMailOptions } from "nodemailer";
import type { Logger } from "pino";
import { validate as isUuid } from "uuid";
import type { Config } from "../platform/config/config.ts";
import type { Logo } from "../platform/process/logo-file.ts";
import { makePrivateFolder } from "../store/data-folder.ts";
import { Email } from "../store/emails.ts";
import { lowestId } from "../store/ids.ts";
import type { Db } from "../store/statement.ts";
import { LOGO_CID } from "./templates.ts";

/**
 * Maximum number of connections to the SMTP server: Postfix's default limit per client
 * (`smtpd_client_connection_count_limit`). The worker only uses more than a few while deliveries are
 * slow.
 */
export const MAX_CONNECTIONS = 50;
/** Maximum number of e-mails per connection. */
const EMAILS_PER_CONNECTION = 200;

const MINUTE_MS = 60_000;

/** Time limits of an SMTP session, in ms. */
export type MailLimits = {
  /** For the reply to each step. */
  stepMs: number;
  /** From connecting to the end of STARTTLS. Each of its steps also has the limit of a step. */
  setupMs: number;
};

/**
 * RFC 5321 section 4.5.3.2 specifies minimum client timeouts for each step: 5 minutes for the greeting,
 * EHLO, MAIL and RCPT, 2 for DATA, 3 for a block of data and 10 for the reply to the final dot. If a
 * client times out earlier, the server may have accepted the e-mail and will get it again. Nodemailer
 * has a single timeout for all steps, hence the longest. Setup consists of greeting, EHLO, STARTTLS and
 * a handshake.
 */
export const MAIL_LIMITS: MailLimits = { stepMs: 10 * MINUTE_MS, setupMs: 25 * MINUTE_MS };

/** Time limit for each step of `ping`, in ms. May be short, since no e-mail is at stake. */
const PING_MS = 10_000;

/** A header sent without encoding, because the services read it as JSON. */
function asItIs(value: string) {
  return { prepared: true, value };
}

/**
 * Headers that tell relays not to rewrite links. A rewritten link leaks the token to a third party and
 * often breaks. In this order: Mailgun, Postmark, SendGrid, SparkPost, Mailjet.
 */
const NO_CLICK_TRACKING = {
  "X-Mailgun-Track-Clicks": "no",
  "X-PM-TrackLinks": "None",
  "X-SMTPAPI": asItIs('{"filters":{"clicktrack":{"settings":{"enable":0}}}}'),
  "X-MSYS-API": asItIs('{"options":{"click_tracking":false}}'),
  "X-Mailjet-TrackClick": "0",
};

/** A rendered e-mail to one recipient. */
export type OutgoingEmail = {
  to: { name: string; address: string };
  subject: string;
  text: string;
  html: string;
  /** Shown by the HTML. */
  logo?: Logo | undefined;
  messageId: string;
};

export type MailTransport = {
  /**
   * Resolves once the e-mail is accepted for delivery. Errors have the SMTP `responseCode` if there was a
   * reply.
   * @param signal cancels the delivery and closes its connection, which frees its place in the pool
   */
  send(email: OutgoingEmail, signal: AbortSignal): Promise<void>;
  /** Resolves if e-mails can currently be delivered. */
  ping(): Promise<void>;
  close(): void;
};

type MailConfig = Pick<Config, "smtpUrl" | "mailFrom" | "publicUrl" | "dataDir">;

/** Delivers with SMTP. Without a server, writes .eml files and logs links. */
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

/** Maximum line length of a message, in bytes (RFC 5322 section 2.1.1). */
const MAX_LINE = 998;

/**
 * Keeps links in one piece: nodemailer would break lines longer than 76 characters with quoted-printable.
 * ASCII parts are sent without encoding, all others in base64.
 */
function encoded({ text, html, logo, ...email }: OutgoingEmail): SendMailOptions {
  const parts = { text: { raw: toPart("plain", text) }, html: { raw: toPart("html", html) } };
  if (!logo) return { ...email, ...parts };
  const { type: contentType, content } = logo;
  const image = { cid: LOGO_CID, filename: "logo.png", contentType, content };
  return { ...email, ...parts, attachments: [{ ...image, contentDisposition: "inline" }] };
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
 * Sets the name announced in EHLO: the one in the URL, or a host name of the deployment. Strict relays
 * reject the address literal that machines without a full name announce (RFC 5321 section
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

/** Whether a host is a name that others may resolve: not an address, and not this machine. */
const isHostName = (host: string) =>
  /^[a-z\d-]+(\.[a-z\d-]+)+$/i.test(host) && isIP(host) === 0 && !/(^|\.)localhost$/i.test(host);

/** Passwords are only sent over TLS, unless the server is local or the URL overrides this. */
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
      await rename(`${file}.tmp`, file); // so that readers never see a partial file
      const link = /https?:\/\/\S+#token=\S+/.exec(email.text)?.[0];
      log.info({ subject: email.subject, file, ...(link && { link }) }, "mail written");
    },
    ping: async () => {},
    close: () => {},
  };
}

/**
 * Deletes the files of e-mails that are no longer in the database.
 * @param since older files belong to another database and are kept
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

/** Maximum length of a stored error, in characters. */
const MAX_ERROR = 300;
/** How much of a reply is read, in characters. */
const MAX_REPLY = 1_000;
const ADDRESS = /[^\s<>()[\],;:"']+@[^\s<>()[\],;:"']+/g;
const LINK = /\b[a-z][a-z\d+.-]*:\/\/\S+|\b[\w-]+(?:\.[\w-]+)+(?::\d+)?\/\S*/gi;
/** Runs of letters and digits that may be part of a token. */
const RUN = /[\w+/=-]{8,}/g;
/** Words, possibly hyphenated: `non-existent`, `SpamAssassin`, `MAILER-DAEMON`, `TLS_1`. */
const WORDS = /^[-_/=]*(?:(?:[A-Z]?[a-z]+|(?:[A-Z][a-z]{2,})+|[A-Z]+|\d{1,4})(?:[-_/=]+|$))+$/;
const LONGEST_WORD = 30;

/**
 * A one-line description of an error, for the log and the e-mail log: the mail server's reply, if any.
 * A reply may quote the e-mail, so addresses, links and possible parts of a token are removed.
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
