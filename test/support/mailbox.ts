import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import PostalMime from "postal-mime";
import { type ReceivedMail, startSmtpServer } from "./smtp-server.ts";
import { until } from "./until.ts";

/** The inbox of all addresses. */
export type Mailbox = ReturnType<typeof folderMailbox>;
/** An e-mail as its recipient reads it. */
type MailboxEmail = Awaited<ReturnType<typeof parse>>;

/** The mailbox of an SMTP server that accepts everything. */
export async function smtpMailbox() {
  const server = await startSmtpServer();
  const emails = new Map<string, Promise<MailboxEmail>>();
  const read = ({ raw }: ReceivedMail) => emails.get(raw) ?? emails.set(raw, parse(raw)).get(raw);
  return { ...server, ...mailboxOf(async () => (await Promise.all(server.received.map(read))) as MailboxEmail[]) };
}

/** The mailbox of a folder of .eml files, which replaces an SMTP server. */
export function folderMailbox(dataDir: string) {
  const folder = join(dataDir, "mail");
  const emails = new Map<string, Promise<MailboxEmail>>();
  const read = () => {
    for (const name of readdirSync(folder))
      if (name.endsWith(".eml") && !emails.has(name)) emails.set(name, parse(readFileSync(join(folder, name))));
    return Promise.all([...emails].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, email]) => email));
  };
  return { ...mailboxOf(read), close: async () => {} };
}

function mailboxOf(read: () => Promise<MailboxEmail[]>) {
  const emailsTo = async (address: string) =>
    (await read()).filter((email) => email.to?.some((to) => "address" in to && to.address === address));
  return {
    /** All e-mails to an address so far. */
    emailsTo,
    /** Waits for the newest email to an address whose subject matches. */
    emailTo: (address: string, subject = /./) =>
      until(`an email to ${address} about ${subject}`, async () =>
        (await emailsTo(address)).findLast((email) => subject.test(email.subject ?? "")),
      ),
  };
}

async function parse(raw: Buffer | string) {
  const email = await PostalMime.parse(raw);
  const link = /https?:\/\/\S+#token=(\S+)/.exec(email.text ?? "");
  return { ...email, link: link?.[0], token: link?.[1] };
}
