/** Unicode line terminators that JSON does not escape, but that many readers treat as line ends. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

/** JSON on a single line, whatever its reader treats as a line end. */
export const oneLine = (data: unknown): string =>
  JSON.stringify(data).replace(
    LINE_ENDS,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** A server-sent event with JSON as its data. */
export const eventLine = (data: unknown) => `data: ${oneLine(data)}\n\n`;

/** The event that ends our own streams, and those of OpenAI's chat completions. */
export const DONE = "data: [DONE]\n\n";
