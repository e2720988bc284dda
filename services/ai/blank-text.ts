/**
 * A visible character: not white space, not ignorable (Unicode `White_Space` and
 * `Default_Ignorable_Code_Point`) and not a control character.
 */
const VISIBLE = /[^\p{White_Space}\p{Default_Ignorable_Code_Point}\p{Cc}]/u;

/**
 * Whether a text has no visible character. Some providers reject conversations with such a text.
 */
export const isBlank = (text: string): boolean => !VISIBLE.test(text);
