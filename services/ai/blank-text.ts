/**
 * A character that somebody may see: neither white space nor a character that is shown as nothing
 * (Unicode, `White_Space` and `Default_Ignorable_Code_Point`), nor a control character.
 */
const VISIBLE = /[^\p{White_Space}\p{Default_Ignorable_Code_Point}\p{Cc}]/u;

/** Whether a text says nothing. Some providers refuse a conversation with such a text in it. */
export const isBlank = (text: string): boolean => !VISIBLE.test(text);
