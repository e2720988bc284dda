// An SMTP server whose replies a test chooses.

import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

/** A mail that has arrived. */
export type ReceivedMail = { to: string; messageId: string; raw: string };

/**
 * The response to a recipient or a mail: acceptance, no response, or a refusal with a code, of any
 * number, and one or more lines.
 */
export type SmtpResponse = "accept" | "hang" | { code: number; text: string | string[] };

/**
 * An SMTP server that accepts everything, over TLS if it gets a certificate; tests replace its
 * `responses`.
 */
export async function startSmtpServer(port = 0, tls?: { cert: Buffer; key: Buffer }) {
  const received: ReceivedMail[] = [];
  const tries: string[] = [];
  const responses = {
    mail: (): SmtpResponse => "accept",
    rcpt: (_to: string): SmtpResponse => "accept",
    data: (_mail: ReceivedMail): SmtpResponse => "accept",
  };
  const answer = (response: SmtpResponse, done: (error?: Error | null) => void) => {
    if (response === "accept") done();
    else if (response !== "hang")
      done(Object.assign(new Error(), { message: response.text, responseCode: response.code }));
  };
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS", "AUTH"],
    closeTimeout: 200,
    ...(tls && { secure: true, ...tls }),
    onMailFrom: (_address, _session, done) => answer(responses.mail(), done),
    onRcptTo({ address }, _session, done) {
      tries.push(address);
      answer(responses.rcpt(address), done);
    },
    onData(stream, session, done) {
      const parts: Buffer[] = [];
      stream.on("data", (part: Buffer) => parts.push(part));
      stream.on("end", () => {
        const raw = Buffer.concat(parts).toString();
        const mail = {
          to: session.envelope.rcptTo[0]?.address ?? "",
          messageId: /^message-id: (.*)$/im.exec(raw)?.[1] ?? "",
          raw,
        };
        const response = responses.data(mail);
        if (response === "accept" || response === "hang") received.push(mail);
        answer(response, done);
      });
    },
  });
  server.on("error", () => {});
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const { port: actual } = server.server.address() as AddressInfo;
  return {
    url: `${tls ? "smtps" : "smtp"}://127.0.0.1:${actual}`,
    port: actual,
    received,
    /** The recipient of each attempt. */
    tries,
    responses,
    close: () => new Promise<void>((resolve) => server.close(resolve)),
  };
}
