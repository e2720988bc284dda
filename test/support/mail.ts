import { readdirSync, readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import PostalMime, { type Email } from "postal-mime";
import { SMTPServer } from "smtp-server";
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

/** A real SMTP server. `refuse` decides, by recipient, whether a letter is answered with an error code. */
export async function smtpMailbox(refuse: (to: string) => number | undefined = () => undefined) {
  const received: Promise<Letter>[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS", "AUTH"],
    onRcptTo({ address }, _session, done) {
      const responseCode = refuse(address);
      done(responseCode ? Object.assign(new Error("refused by the test"), { responseCode }) : null);
    },
    onData(stream, _session, done) {
      const parts: Buffer[] = [];
      stream.on("data", (part: Buffer) => parts.push(part));
      stream.on("end", () => {
        received.push(parse(Buffer.concat(parts)));
        done();
      });
    },
  });
  server.on("error", () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.server.address() as AddressInfo;
  return {
    url: `smtp://127.0.0.1:${port}`,
    ...mailboxOf(() => Promise.all(received)),
    close: () => new Promise<void>((resolve) => server.close(resolve)),
  };
}

/** The folder of .eml files that stands in for an SMTP server. */
export function folderMailbox(dataDir: string): Mailbox {
  const folder = join(dataDir, "mail");
  const read = () =>
    Promise.all(
      readdirSync(folder)
        .filter((name) => name.endsWith(".eml"))
        .sort()
        .map((name) => parse(readFileSync(join(folder, name)))),
    );
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

async function parse(raw: Buffer): Promise<Letter> {
  const letter = await PostalMime.parse(raw);
  const link = /https?:\/\/\S+#token=(\S+)/.exec(letter.text ?? "");
  return { ...letter, link: link?.[0], token: link?.[1] };
}
