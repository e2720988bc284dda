import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import PostalMime, { type Email } from "postal-mime";
import { type ReceivedMail, startSmtpServer } from "./smtp-server.ts";
import { until } from "./until.ts";

/** A letter as its recipient sees it. */
export type Letter = Email & { token: string | undefined; link: string | undefined };

/** Where the product's mail arrives. */
export type Mailbox = {
  /** Waits for the newest letter to an address whose subject matches. */
  letterTo(address: string, subject?: RegExp): Promise<Letter>;
  /** What has come for an address so far. */
  lettersTo(address: string): Promise<Letter[]>;
  close(): Promise<void>;
};

/** A real SMTP server that accepts everything. */
export async function smtpMailbox() {
  const { url, received, close } = await startSmtpServer();
  const letters = new Map<string, Promise<Letter>>();
  const read = ({ raw }: ReceivedMail) => letters.get(raw) ?? letters.set(raw, parse(raw)).get(raw);
  return { url, ...mailboxOf(async () => (await Promise.all(received.map(read))) as Letter[]), close };
}

/** The folder of .eml files that stands in for an SMTP server. */
export function folderMailbox(dataDir: string): Mailbox {
  const folder = join(dataDir, "mail");
  const letters = new Map<string, Promise<Letter>>();
  const read = () => {
    for (const name of readdirSync(folder))
      if (name.endsWith(".eml") && !letters.has(name)) letters.set(name, parse(readFileSync(join(folder, name))));
    return Promise.all([...letters].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, letter]) => letter));
  };
  return { ...mailboxOf(read), close: async () => {} };
}

function mailboxOf(read: () => Promise<Letter[]>): Pick<Mailbox, "letterTo" | "lettersTo"> {
  const lettersTo = async (address: string) =>
    (await read()).filter((letter) => letter.to?.some((to) => "address" in to && to.address === address));
  return {
    lettersTo,
    letterTo: (address, subject = /./) =>
      until(`a letter to ${address} about ${subject}`, async () =>
        (await lettersTo(address)).findLast((letter) => subject.test(letter.subject ?? "")),
      ),
  };
}

async function parse(raw: Buffer | string): Promise<Letter> {
  const letter = await PostalMime.parse(raw);
  const link = /https?:\/\/\S+#token=(\S+)/.exec(letter.text ?? "");
  return { ...letter, link: link?.[0], token: link?.[1] };
}
