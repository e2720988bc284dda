/** Longest error that is kept, in characters. */
const MAX_ERROR = 300;
/** Words that are kept of a mail server's answer. */
const MAX_WORDS = 25;

/**
 * The code of the mail server's answer to this letter (RFC 5321 section 4.2); undefined where it did not answer, or
 * refused us or our sender instead, which is not about the letter.
 */
export function smtpReplyCode(error: unknown): number | undefined {
  const { code, command, responseCode } = error as { code?: string; command?: string; responseCode?: number };
  const isAboutLetter = code === "EMESSAGE" || (code === "EENVELOPE" && command !== "MAIL FROM");
  return isAboutLetter ? responseCode : undefined;
}

/** An error in one line, for the log. A mail server's answer may quote the letter: only harmless words of it are kept. */
export function describeSmtpError(error: unknown): string {
  const { message, response } = error instanceof Error ? (error as Error & { response?: unknown }) : {};
  const text = response === undefined ? (message ?? String(error)) : redact(String(response));
  return text.replace(/\s+/g, " ").slice(0, MAX_ERROR);
}

/** A code of SMTP (RFC 5321, RFC 3463) or a plain word: no useful piece of a token looks like one. */
const SAFE_WORD = /^(?:[245]\d\d|[245]\.\d{1,3}\.\d{1,3}|[A-Z]{1,5}|[A-Z]?[a-z']{1,14})[.,;:!]?$/;

/** The first line of a mail server's answer, reduced to its codes and plain words: it may hold a token, in pieces. */
function redact(response: string): string {
  const [line = ""] = response.split(/\r?\n/, 1);
  const words = line.replace(/^(\d{3})-/, "$1 ").split(/\s+/, MAX_WORDS);
  return words.map((word) => (SAFE_WORD.test(word) ? word : "…")).join(" ");
}
