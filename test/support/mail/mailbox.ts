// The inbox of test users.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { domainToASCII } from "node:url";
import PostalMime from "postal-mime";
import { until } from "../until.ts";
import { type ReceivedMail, startSmtpServer } from "./smtp-server.ts";

/** The inbox of all addresses. */
export type Mailbox = ReturnType<typeof folderMailbox>;
/** An e-mail as its recipient reads it. */
type MailboxEmail = Awaited<ReturnType<typeof parse>>;

/**
 * An address with its domain in punycode, which the SMTP server decodes, and without the quotes
 * around a local part with dots at its edges (RFC 5321 section 4.1.2).
 */
const canonical = (address: string) =>
  address.replace(/[^@]*$/, domainToASCII).replace(/^"(.*)"@/, "$1@");

/** The mailbox of an SMTP server that accepts everything. */
export async function smtpMailbox(...options: Parameters<typeof startSmtpServer>) {
  const server = await startSmtpServer(...options);
  const emails = new WeakMap<ReceivedMail, Promise<MailboxEmail>>();
  const read = (mail: ReceivedMail) => {
    const email = emails.get(mail) ?? parse(mail.raw);
    emails.set(mail, email);
    return email;
  };
  const emailsTo = (address: string) => {
    const wanted = canonical(address);
    return Promise.all(server.received.filter(({ to }) => canonical(to) === wanted).map(read));
  };
  return { ...server, ...mailboxOf(emailsTo) };
}

/** The mailbox of a folder of .eml files, which replaces an SMTP server. */
export function folderMailbox(dataDir: string) {
  const folder = join(dataDir, "mail");
  const files = new Map<string, { raw: Buffer; to: string; email?: Promise<MailboxEmail> }>();
  async function emailsTo(address: string): Promise<MailboxEmail[]> {
    for (const name of existsSync(folder) ? readdirSync(folder) : []) {
      if (!name.endsWith(".eml") || files.has(name)) continue;
      const raw = readFileSync(join(folder, name));
      files.set(name, { raw, to: recipientIn(raw) });
    }
    const likely = [...files]
      .filter(([, { to }]) => to === "" || to === address.toLowerCase())
      .sort(([a], [b]) => (a < b ? -1 : 1));
    const all = await Promise.all(likely.map(([, file]) => (file.email ??= parse(file.raw))));
    const isTo = (to: string | undefined) =>
      to !== undefined && canonical(to) === canonical(address);
    return all.filter(({ to }) => to?.some((one) => isTo(one.address)));
  }
  return { ...mailboxOf(emailsTo), close: async () => {} };
}

/** The address in the header of an e-mail, in lower case; "" if only a parser can tell. */
const recipientIn = (raw: Buffer): string =>
  (
    /^To: ([\w.+-]+@(?!xn--)(?:[\w-]+\.(?!xn--))*[\w-]+)\r$/m.exec(raw.toString("latin1"))?.[1] ??
    ""
  ).toLowerCase();

/** @param emailsTo all e-mails to an address so far */
const mailboxOf = (emailsTo: (address: string) => Promise<MailboxEmail[]>) => ({
  emailsTo,
  /** Waits for the newest email to an address whose subject matches. */
  emailTo: (address: string, subject = /./, withinMs?: number) =>
    until(
      `an email to ${address} about ${subject}`,
      async () => (await emailsTo(address)).findLast((email) => subject.test(email.subject ?? "")),
      withinMs,
    ),
});

async function parse(raw: Buffer | string) {
  const parsed = await PostalMime.parse(raw);
  const email = { ...parsed, text: parsed.text?.replaceAll("\r\n", "\n") }; // as written
  const link = /https?:\/\/\S+#token=(\S+)/.exec(email.text ?? "");
  return { ...email, link: link?.[0], token: link?.[1] };
}
