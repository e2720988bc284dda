import { readdir, rename, rm, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import type { Logger } from "pino";
import { validate as isUuid } from "uuid";
import type { Config } from "../platform/config/config.ts";
import { makePrivateFolder } from "../store/data-folder.ts";
import { Email } from "../store/emails.ts";
import { lowestId } from "../store/ids.ts";
import type { Db } from "../store/statement.ts";
import { composeMessage, type OutgoingEmail } from "./message.ts";

/**
 * Maximum number of connections to the SMTP server: Postfix's default limit per client
 * (`smtpd_client_connection_count_limit`). The worker only uses more than a few while deliveries
 * are slow.
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
 * RFC 5321 section 4.5.3.2 specifies minimum client timeouts for each step: 5 minutes for the
 * greeting, EHLO, MAIL and RCPT, 2 for DATA, 3 for a block of data and 10 for the reply to the
 * final dot. If a client times out earlier, the server may have accepted the e-mail and will get it
 * again. Nodemailer has a single timeout for all steps, hence the longest. Setup consists of
 * greeting, EHLO, STARTTLS and a handshake.
 */
export const MAIL_LIMITS: MailLimits = { stepMs: 10 * MINUTE_MS, setupMs: 25 * MINUTE_MS };

/** Time limit for each step of `ping`, in ms. May be short, since no e-mail is at stake. */
const PING_MS = 10_000;

export type MailTransport = {
  /**
   * Resolves once the e-mail is accepted for delivery. Errors have the SMTP `responseCode` if there
   * was a reply.
   * @param signal cancels the delivery and closes its connection, which frees its place in the pool
   */
  send(email: OutgoingEmail, signal: AbortSignal): Promise<void>;
  /** Resolves if e-mails can currently be delivered. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

type MailConfig = Pick<Config, "smtpUrl" | "mailFrom" | "publicUrl" | "dataDir">;

/** Delivers with SMTP. Without a server, writes .eml files and logs links. */
export function createMailTransport(
  config: MailConfig,
  log: Logger,
  { stepMs, setupMs }: MailLimits = MAIL_LIMITS,
): MailTransport {
  const { smtpUrl, mailFrom, dataDir } = config;
  if (!smtpUrl) return createFolderTransport(folderOf(dataDir), mailFrom, log);
  const server = { url: withName(smtpUrl, config), requireTLS: needsTls(smtpUrl) };
  const open = async () => {
    const { createTransport } = await import("nodemailer");
    const pool = createTransport({
      ...server,
      pool: true,
      maxConnections: MAX_CONNECTIONS,
      maxMessages: EMAILS_PER_CONNECTION,
      connectionTimeout: setupMs,
      greetingTimeout: stepMs,
      socketTimeout: stepMs,
    });
    const probe = createTransport({
      ...server,
      connectionTimeout: PING_MS,
      greetingTimeout: PING_MS,
      socketTimeout: PING_MS,
    });
    return { pool, probe };
  };
  let opened: ReturnType<typeof open> | undefined; // on first use, since the library is large
  const transports = () => (opened ??= open());
  return {
    async send(email, signal) {
      const { pool } = await transports();
      const envelope = { from: mailFrom.address, to: [email.to] }; // a text would be split at commas
      await pool.sendMail({ envelope, raw: await composeMessage(mailFrom, email), signal });
    },
    ping: async () => void (await (await transports()).probe.verify()),
    close: async () => (await opened)?.pool.close(),
  };
}

/**
 * Sets the name announced in EHLO: the one in the URL, or a host name of the deployment. Strict
 * relays reject the address literal that machines without a full name announce (RFC 5321 section
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
  from: MailConfig["mailFrom"],
  log: Logger,
): MailTransport {
  makePrivateFolder(folder);
  return {
    async send(email) {
      const file = join(folder, `${email.messageId.replace(/[<>]/g, "").replace(/@.*/, "")}.eml`);
      await writeFile(`${file}.tmp`, await composeMessage(from, email), { mode: 0o600 });
      await rename(`${file}.tmp`, file); // so that readers never see a partial file
      const link = /https?:\/\/\S+#token=\S+/.exec(email.text)?.[0];
      log.info({ subject: email.subject, file, ...(link && { link }) }, "mail written");
    },
    ping: async () => {},
    close: async () => {},
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
 * A one-line description of an error, for the log and the e-mail log: the mail server's reply, if
 * any. A reply may quote the e-mail, so addresses, links and possible parts of a token are removed.
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
