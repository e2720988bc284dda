/** Texts in which nobody sees anything, by the name of a character in them. */
export const BLANKS: [name: string, text: string][] = [
  ["nothing", ""],
  ["blanks and tabs", " \t  "],
  ["line ends", "\n\r\n\r"],
  ["no-break spaces", "\u00a0\u202f"],
  ["a byte order mark", "\ufeff"],
  ["typographic spaces", "\u2002\u2009\u3000\u1680\u205f"],
  ["line separators", "\u2028\u2029\u0085"],
  ["zero-width characters", "\u200b\u200c\u200d\u2060"],
  ["soft hyphens", "\u00ad"],
  ["fillers", "\u3164\u115f\uffa0"],
  ["variation selectors and tags", "\ufe0f\u{e0101}\u{e0020}"],
  ["control characters", "\u0001\u001c\u001f\u007f"],
];
