import { domainToASCII, domainToUnicode } from "node:url";
import { type DescMessage, getOption, type Message } from "@bufbuild/protobuf";
import { field as fieldOption, TypedText } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { remembered } from "./policy.ts";

/**
 * Longest text that is folded, in UTF-16 units. No rule of a typed field accepts a longer one, so it
 * is left as it is.
 */
const MAX_LENGTH = 8_192;

/**
 * What nobody sees (Unicode Default_Ignorable_Code_Point, UAX #44, and other format characters):
 * spaces without width, byte order marks, soft hyphens, marks of direction, variation selectors.
 */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Cf}]/gu;
/** Those that some languages and emoji are written with: joiners, variation selectors and tags. */
const SPELLING = /\u200c|\u200d|\p{Variation_Selector}|[\u{e0020}-\u{e007f}]/u;
/** Joiners, which domains of some languages contain (RFC 5892 appendix A). */
const JOINER = /\u200c|\u200d/u;
const BLANK = /[\p{White_Space}\u2800]/gu;
/** Blanks within a line. */
const SPACE = /[\p{Zs}\u2800]/gu;
/** The same, and separators that are no control characters. */
const SEPARATOR = /\p{Z}/gu;
/**
 * Dashes, signs that are taken for one, and what a Japanese keyboard writes with the key of the
 * hyphen.
 */
const DASH = /[\p{Pd}\u02d7\u2043\u2212\u2500\u2796\u30fc]/gu;
const DOT = /[\u3002\uff0e\uff61]/gu;
const DIGIT = /(?![0-9])\p{Nd}/gu;
/** ASCII as East Asian keyboards write it (RFC 8264 section 5.2.1, width mapping). */
const FULL_WIDTH = /[\uff01-\uff5e]/gu;
const FULL_WIDTH_OFFSET = 0xfee0;

/** Blanks and invisible characters at the edges. */
const EDGES =
  /^[\p{White_Space}\p{Default_Ignorable_Code_Point}\p{Cf}\u2800]+|[\p{White_Space}\p{Default_Ignorable_Code_Point}\p{Cf}\u2800]+$/gu;

/** The same of a name, which may end with the variation selector of an emoji. */
const NAME_EDGES =
  /^[\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]+|(?:[\p{White_Space}\u2800]|\u200c|\u200d)+$/gu;

const isAscii = (text: string): boolean => /^\p{ASCII}*$/u.test(text);

/**
 * The value of a decimal digit of any script. Unicode encodes the ten digits of a script in a row
 * (Unicode Standard section 4.6).
 */
function digitValue(digit: string): string {
  const codePoint = digit.codePointAt(0) as number;
  let before = 0;
  while (/\p{Nd}/u.test(String.fromCodePoint(codePoint - before - 1))) before++;
  return String(before % 10);
}

/** Writes the decimal digits of every script as 0 to 9. */
export const foldDigits = (text: string): string => text.replace(DIGIT, digitValue);

/** Drops invisible characters, but for those that `kept` matches. */
const visible = (text: string, kept?: RegExp): string =>
  text.replace(INVISIBLE, (character) => (kept?.test(character) ? character : ""));

const trim = (text: string): string => text.replace(EDGES, "");

/**
 * A token: without white space and invisible characters, with the forms of digits, letters and
 * dashes folded.
 */
const tokenForm = (text: string): string =>
  foldDigits(visible(text).normalize("NFKC").replace(BLANK, "")).replace(DASH, "-");

/** A code, whose dashes are to help the eye. */
const codeForm = (text: string): string => tokenForm(text).replaceAll("-", "");

/**
 * An e-mail address as it is stored: without invisible characters and blanks around it. Digits and
 * dashes are folded where the rest is ASCII. Letters that only look like ASCII stay as they are, and
 * are refused: they may belong to another mailbox.
 */
export function addressForm(text: string): string {
  const narrow = trim(text).replace(FULL_WIDTH, (character) =>
    String.fromCharCode(character.charCodeAt(0) - FULL_WIDTH_OFFSET),
  );
  const at = narrow.lastIndexOf("@");
  if (at < 0) return asciiForm(narrow);
  const domain = narrow.slice(at + 1).replace(DOT, ".");
  const labels = domain.split(".").map(labelForm);
  return `${asciiForm(narrow.slice(0, at))}@${labels.join(".")}`;
}

const asciiForm = (text: string): string => foldDigits(visible(text)).replace(DASH, "-");

/** A label of a domain. Joiners stay where they make another domain. */
function labelForm(label: string): string {
  const ascii = asciiForm(label);
  if (isAscii(ascii)) return ascii;
  const joined = visible(label, JOINER).normalize("NFC");
  return domainToASCII(joined) === "" ? visible(label).normalize("NFC") : joined;
}

/** The name of a person, as it is stored. One that has nothing to see is left for the rules. */
function nameForm(text: string): string {
  const composed = visible(text, SPELLING).normalize("NFC");
  const name = composed.replace(SEPARATOR, " ").replace(NAME_EDGES, "");
  return /[^\s\p{Z}\p{C}\p{Default_Ignorable_Code_Point}\u2800]/u.test(name) ? name : text;
}

/** A part of an address or a name to search for. */
const searchForm = (text: string): string =>
  visible(text, SPELLING)
    .normalize("NFKC")
    .replace(SPACE, " ")
    .replace(/^ +| +$/g, "");

/** What a domain can't contain: `domainToASCII` would read it as syntax of a URL. */
const NO_DOMAIN = /[\s%/?#\\:@[\]<>^|]/;

/**
 * The other spellings of an address, or a part of one, that has an international domain: in Unicode
 * and in punycode.
 */
export function domainSpellings(text: string): string[] {
  const at = text.lastIndexOf("@") + 1;
  const [local, domain] = [text.slice(0, at), text.slice(at)];
  if (NO_DOMAIN.test(domain) || (isAscii(domain) && !/xn--/i.test(domain))) return [];
  const spellings = [domainToASCII(domain), domainToUnicode(domain)];
  return spellings.filter((other) => other !== "").map((other) => local + other);
}

/** A password in the form that is hashed (RFC 8265 section 4.2.2, without its mapping of spaces). */
export const passwordForm = (text: string): string => text.normalize("NFC");

const forms: Partial<Record<TypedText, (text: string) => string>> = {
  [TypedText.TOKEN]: tokenForm,
  [TypedText.CODE]: codeForm,
  [TypedText.ADDRESS]: addressForm,
  [TypedText.NAME]: nameForm,
  [TypedText.SEARCH]: searchForm,
  [TypedText.NEW_PASSWORD]: passwordForm,
};

/** The fields of a message that people type, by the names of their properties. */
const typedFields = remembered((schema: DescMessage) =>
  schema.fields.flatMap((field) => {
    const { typed } = getOption(field, fieldOption);
    return typed === TypedText.UNSPECIFIED ? [] : [{ name: field.localName, typed }];
  }),
);

/** Brings what people have typed or pasted into the form that is checked and used, in place. */
export function foldTypedTexts(schema: DescMessage, message: Message): void {
  const texts = message as Message & Record<string, unknown>;
  for (const { name, typed } of typedFields(schema)) {
    const text = texts[name];
    if (typeof text !== "string" || text.length > MAX_LENGTH) continue;
    texts[name] = forms[typed]?.(text) ?? text;
  }
}

/**
 * The message whose passwords have the form that is compared. The operation gets them as they were
 * typed, since older hashes are of that form.
 */
export function withComparedPasswords(schema: DescMessage, message: Message): Message {
  const texts = message as Message & Record<string, unknown>;
  const compared = typedFields(schema).flatMap(({ name, typed }) => {
    const text = texts[name];
    const isFolded = typed === TypedText.PASSWORD && typeof text === "string";
    return isFolded && text.length <= MAX_LENGTH ? [[name, passwordForm(text)] as const] : [];
  });
  return compared.every(([name, text]) => texts[name] === text)
    ? message
    : { ...message, ...Object.fromEntries(compared) };
}
