/** Codes from apps have six digits; anything else is treated as a backup code. */
export function codeOf(text: string): { code?: string; backupCode?: string } {
  if (!text.trim()) return {};
  const characters = text.normalize("NFKC").replace(/[^\p{L}\p{Nd}]/gu, "");
  return /^\p{Nd}{6}$/u.test(characters) ? { code: text } : { backupCode: text };
}
