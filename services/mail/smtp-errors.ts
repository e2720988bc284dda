/** Longest error that is kept, in characters. */
const MAX_ERROR = 300;
/** Most words that are kept of a mail server's reply. */
const MAX_WORDS = 25;

/**
 * The mail server's reply code for this e-mail (RFC 5321 section 4.2). Undefined if there was no reply, or if the server
 * refused the connection or the sender, which is not about this e-mail.
 */
export function smtpReplyCode(error: unknown): number | undefined {
  const { code, command, responseCode } = error as { code?: string; command?: string; responseCode?: number };
  const isAboutEmail = code === "EMESSAGE" || (code === "EENVELOPE" && command !== "MAIL FROM");
  return isAboutEmail ? responseCode : undefined;
}

/** An error in one line, for logs. A reply may quote the e-mail, so only safe words of it are kept. */
export function describeSmtpError(error: unknown): string {
  const { message, response } = error instanceof Error ? (error as Error & { response?: unknown }) : {};
  const text = response === undefined ? (message ?? String(error)) : redact(String(response));
  return text.replace(/\s+/g, " ").slice(0, MAX_ERROR);
}

/** An SMTP code (RFC 5321, RFC 3463) or a plain word. No useful part of a token looks like one. */
const SAFE_WORD = /^(?:[245]\d\d|[245]\.\d{1,3}\.\d{1,3}|[A-Z]{1,5}|[A-Z]?[a-z']{1,14})[.,;:!]?$/;

/** The first line of a reply, reduced to codes and plain words: it may contain parts of a token. */
function redact(response: string): string {
  const [line = ""] = response.split(/\r?\n/, 1);
  const words = line.replace(/^(\d{3})-/, "$1 ").split(/\s+/, MAX_WORDS);
  return words.map((word) => (SAFE_WORD.test(word) ? word : "…")).join(" ");
}
