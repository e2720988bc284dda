import type { Logo } from "../platform/process/logo-file.ts";
import { LOGO_CID } from "./templates.ts";

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

/** A header sent without encoding, because the services read it as JSON. */
function asItIs(value: string) {
  return { prepared: true, value };
}

/**
 * Headers of every e-mail. `Auto-Submitted` prevents out-of-office replies (RFC 3834). The others
 * tell relays not to rewrite links: a rewritten link leaks the token to a third party and often
 * breaks. In this order: Mailgun, Postmark, SendGrid, SparkPost, Mailjet.
 */
const HEADERS = {
  "Auto-Submitted": "auto-generated",
  "X-Mailgun-Track-Clicks": "no",
  "X-PM-TrackLinks": "None",
  "X-SMTPAPI": asItIs('{"filters":{"clicktrack":{"settings":{"enable":0}}}}'),
  "X-MSYS-API": asItIs('{"options":{"click_tracking":false}}'),
  "X-Mailjet-TrackClick": "0",
};

/** Maximum line length of a message, in bytes (RFC 5322 section 2.1.1). */
const MAX_LINE = 998;
/** Length of the lines of base64, in characters (RFC 2045 section 6.8). */
const BASE64_LINE = /.{1,76}/g;

/**
 * Composes a message: its headers with nodemailer, which is loaded on first use, its body here.
 * Nodemailer would break lines longer than 76 characters, and links with them, and its streams took
 * 9 % of the rate of registrations.
 * @param from the sender
 */
export async function composeMessage(
  from: OutgoingEmail["to"],
  email: OutgoingEmail,
): Promise<string> {
  const { default: MimeNode } = await import("nodemailer/lib/mime-node");
  const { to, subject, text, html, logo, messageId } = email;
  const root = new MimeNode("multipart/alternative");
  root.setHeader({ ...HEADERS, From: from, To: to, Subject: subject, "Message-ID": messageId });
  const head = root.buildHeaders(); // also chooses the boundary
  const page = toPart("html", html);
  const parts = [toPart("plain", text), logo ? withLogo(page, logo, `${root.boundary}-r`) : page];
  return `${head}\r\n\r\n${joined(parts, `${root.boundary}`)}`;
}

/** A part of text. ASCII is sent without encoding, all others in base64. */
function toPart(subtype: "plain" | "html", content: string): string {
  const lines = content.split("\n");
  const isPlain = lines.every((line) => line.length <= MAX_LINE && /^[\t\x20-\x7e]*$/.test(line));
  const bytes = Buffer.from(lines.join("\r\n"));
  return [
    `Content-Type: text/${subtype}; charset=utf-8`,
    `Content-Transfer-Encoding: ${isPlain ? "7bit" : "base64"}`,
    "",
    ...(isPlain ? lines : toBase64(bytes)),
  ].join("\r\n");
}

/** The HTML and the image that it shows. */
function withLogo(page: string, { type, content }: Logo, boundary: string): string {
  const image = [
    `Content-Type: ${type}; name=logo.png`,
    `Content-ID: <${LOGO_CID}>`,
    "Content-Transfer-Encoding: base64",
    "Content-Disposition: inline; filename=logo.png",
    "",
    ...toBase64(content),
  ].join("\r\n");
  const head = `Content-Type: multipart/related; type="text/html"; boundary="${boundary}"`;
  return `${head}\r\n\r\n${joined([page, image], boundary)}`;
}

/** The body of a part with several parts (RFC 2046 section 5.1.1). */
const joined = (parts: readonly string[], boundary: string): string =>
  `${parts.map((part) => `--${boundary}\r\n${part}\r\n`).join("")}--${boundary}--\r\n`;

const toBase64 = (bytes: Buffer): string[] => bytes.toString("base64").match(BASE64_LINE) ?? [];
