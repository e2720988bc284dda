/**
 * Counts the code points of texts, as the constraints of single fields do: a surrogate pair is one
 * character. For text that is too long in any case, counts UTF-16 code units, which is faster.
 * @param most the maximum that the count is compared with
 */
export function charactersIn(texts: readonly string[], most: number): number {
  const units = texts.reduce((sum, text) => sum + text.length, 0);
  if (units > 2 * most) return units;
  return texts.reduce((sum, text) => sum + text.replace(/[\ud800-\udbff]/g, "").length, 0);
}
