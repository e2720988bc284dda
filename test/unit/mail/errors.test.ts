import { expect, test } from "vitest";
import { describeSmtpError } from "../../../services/mail/transport.ts";
import { times } from "../../support/tally.ts";

const TOKEN = "q3Zb-8xKp_RtY2mWc7VhLd0NfGs5JaEuTi9oBvXy1Ck";
const of = (response: string) => describeSmtpError({ message: "Failed", response });

test.each([
  {
    reply: "421-4.7.0 Try again later, closing connection. (EHLO)\r\n421 4.7.0  a1sor123.4 - gsmtp",
    kept: "421 4.7.0 Try again later, closing connection. (EHLO) 4.7.0 ….4 - gsmtp",
  },
  {
    reply: "501 5.5.4 Invalid HELO name [127.0.0.1]",
    kept: "501 5.5.4 Invalid HELO name [127.0.0.1]",
  },
  {
    reply: "550 5.1.1 <ann.smith@example.com>: Recipient address rejected: User unknown",
    kept: "550 5.1.1 <…>: Recipient address rejected: User unknown",
  },
  {
    reply: "550 5.7.26 Unauthenticated. See https://support.google.com/mail?p=Auth#x for details",
    kept: "550 5.7.26 Unauthenticated. See … for details",
  },
  {
    reply: "550 blocked, visit www.spamhaus.org/query/ip/203.0.113.7 now",
    kept: "550 blocked, visit … now",
  },
  {
    reply: "530 5.7.0 Must issue a STARTTLS command first",
    kept: "530 5.7.0 Must issue a STARTTLS command first",
  },
  {
    reply: "554 5.7.1 SpamAssassin: non-existent MAILER-DAEMON",
    kept: "554 5.7.1 SpamAssassin: non-existent MAILER-DAEMON",
  },
  {
    reply: "550 Empfänger abgelehnt: Postfach überfüllt",
    kept: "550 Empfänger abgelehnt: Postfach überfüllt",
  },
  {
    reply: "450 4.2.0 Greylisted\u0000\u001b[31m\u202e, see\tlater\u0007",
    kept: "450 4.2.0 Greylisted [31m , see later",
  },
  { reply: `550 Spam: ${TOKEN}`, kept: "550 Spam: …" },
  {
    reply: `550 Spam: #token=3D${TOKEN.slice(0, 20)}=\r\n${TOKEN.slice(20)}`,
    kept: "550 Spam: #… …",
  },
  { reply: "550 Your code is 48291733", kept: "550 Your code is …" },
])("SMTP errors: are kept without addresses, links and tokens: $reply", ({ reply, kept }) => {
  expect(of(reply)).toBe(kept);
});

test("SMTP errors: contain no fragment of a token, however it is split", () => {
  const cut = (width: number) => TOKEN.match(new RegExp(`.{1,${width}}`, "g"))?.join("\r\n550-");
  for (const width of times(36, (i) => i + 8)) {
    const kept = of(`550-Spam:\r\n550-${cut(width)}`);
    const pieces = times(36, (i) => TOKEN.slice(i, i + 8));
    expect(pieces.filter((piece) => kept.includes(piece))).toEqual([]);
  }
});

test.each(["a ", "a@", "a.b/", "a-", "Ab", "://", "=\r\n"])(
  "SMTP errors: a reply of a megabyte of %j becomes one line of bounded length within seconds",
  (part) => {
    const startedAt = performance.now();
    const kept = of(`550 ${part.repeat(1_000_000 / part.length)}`);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect(kept.length).toBeLessThanOrEqual(300);
    expect(kept).not.toMatch(/[\r\n]/);
  },
);

test.each([
  "connect ECONNREFUSED 127.0.0.1:2525",
  "getaddrinfo ENOTFOUND smtp.example.com",
  "self-signed certificate in certificate chain",
])("SMTP errors: are kept if there is no reply: %s", (message) => {
  expect(describeSmtpError(new Error(message))).toBe(message);
});
