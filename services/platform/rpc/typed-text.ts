import { domainToASCII, domainToUnicode } from "node:url";
import { type DescMessage, getOption, type Message } from "@bufbuild/protobuf";
import { field as fieldOption, TypedText } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { remembered } from "./policy.ts";

/**
 * Maximum lengths of tokens and of other texts that are normalized, in UTF-16 units. No rule of a
 * typed field accepts a longer text, so it is left unchanged: the time to compose a text, or to
 * convert a domain, may be quadratic. Addresses have 254 characters; others may be invisible.
 */
const MAX_TOKEN_LENGTH = 8_192;
export const MAX_TYPED_LENGTH = 1_024;

/**
 * Invisible characters (Unicode Default_Ignorable_Code_Point, UAX #44, and other format
 * characters): zero-width spaces, byte order marks, soft hyphens, direction marks, variation
 * selectors.
 */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Cf}]/gu;
/**
 * Invisible characters that some languages and emoji need: joiners, variation selectors and tags.
 */
const SPELLING = /\u200c|\u200d|\p{Variation_Selector}|[\u{e0020}-\u{e007f}]/u;
/** Joiners, which are valid in domains of some languages (RFC 5892 appendix A). */
const JOINER = /\u200c|\u200d/u;
const BLANK = /[\p{White_Space}\u2800]/gu;
/** The same and all other separators that are not control characters. */
const SEPARATOR = /\p{Z}/gu;
/**
 * Dashes, characters mistaken for one, and what the hyphen key of a Japanese keyboard produces in
 * either width.
 */
const DASH = /[\p{Pd}\p{Dash}\u02d7\u2043\u2212\u2500\u2796\u30fc\uff70]/gu;
const DOT = /[\u3002\uff0e\uff61]/gu;
const DIGIT = /(?![0-9])\p{Nd}/gu;
/**
 * ASCII characters in the full-width form of East Asian keyboards (RFC 8264 section 5.2.1, width
 * mapping).
 */
const FULL_WIDTH = /[\uff01-\uff5e]/gu;
const FULL_WIDTH_OFFSET = 0xfee0;

/**
 * Creates a pattern for certain characters at both ends of a text. Each run of them is read once,
 * since a match begins only where no other of them precedes: otherwise the time is quadratic.
 */
const edges = (start: RegExp, end = start): RegExp =>
  new RegExp(`^${start.source}+|(?<!${end.source})${end.source}+$`, "gu");

/** Spaces and invisible characters at both ends. */
const EDGES = edges(/[\p{White_Space}\p{Default_Ignorable_Code_Point}\p{Cf}\u2800]/u);

/** The same for names, which may end with the variation selector of an emoji. */
const NAME_EDGES = edges(
  /[\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]/u,
  /(?:[\p{White_Space}\u2800]|\u200c|\u200d)/u,
);
const SPACES = edges(/ /u);

const isAscii = (text: string): boolean => /^\p{ASCII}*$/u.test(text);

/**
 * The value of a decimal digit of any script. Unicode encodes the ten digits of each script
 * contiguously (Unicode Standard section 4.6).
 */
function digitValue(digit: string): string {
  const codePoint = digit.codePointAt(0) as number;
  let before = 0;
  while (/\p{Nd}/u.test(String.fromCodePoint(codePoint - before - 1))) before++;
  return String(before % 10);
}

/** Replaces the decimal digits of all scripts with 0 to 9. */
const foldDigits = (text: string): string => text.replace(DIGIT, digitValue);

/** Removes invisible characters, except those that `kept` matches. */
const visible = (text: string, kept?: RegExp): string =>
  text.replace(INVISIBLE, (character) => (kept?.test(character) ? character : ""));

const trim = (text: string): string => text.replace(EDGES, "");

/**
 * Normalizes a token: removes whitespace and invisible characters, and folds digits, full-width
 * letters and dashes.
 */
const tokenForm = (text: string): string =>
  foldDigits(visible(text).normalize("NFKC").replace(BLANK, "")).replace(DASH, "-");

/** Normalizes a code. Its dashes are only for readability. */
const codeForm = (text: string): string => tokenForm(text).replaceAll("-", "");

/**
 * Normalizes an e-mail address to its stored form: removes surrounding spaces and invisible
 * characters. Digits and dashes are folded if the rest is ASCII. Letters that only look like ASCII
 * are kept and rejected later, since the address may be another mailbox.
 */
export function addressForm(text: string): string {
  if (text.length > MAX_TYPED_LENGTH) return text;
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

/** Normalizes a domain label. Joiners are kept where they distinguish one domain from another. */
function labelForm(label: string): string {
  const ascii = asciiForm(label);
  if (isAscii(ascii)) return ascii;
  const joined = visible(label, JOINER).normalize("NFC");
  return domainToASCII(joined) === "" ? visible(label).normalize("NFC") : joined;
}

/**
 * Normalizes a person's name to its stored form. A name without visible characters is left for the
 * rules to reject.
 */
function nameForm(text: string): string {
  const composed = visible(text, SPELLING).normalize("NFC");
  const name = composed.replace(SEPARATOR, " ").replace(NAME_EDGES, "");
  return /[^\s\p{Z}\p{C}\p{Default_Ignorable_Code_Point}\u2800]/u.test(name) ? name : text;
}

/** Normalizes part of an address or name to search for. */
const searchForm = (text: string): string =>
  visible(text, SPELLING).normalize("NFKC").replace(BLANK, " ").replace(SPACES, "");

/** Characters that a domain can't contain: `domainToASCII` would read them as URL syntax. */
const NO_DOMAIN = /[\s%/?#\\:@[\]<>^|]/;

/**
 * Alternative spellings of an address, or part of one, with an internationalized domain: in Unicode
 * and in Punycode.
 */
export function domainSpellings(text: string): string[] {
  const at = text.lastIndexOf("@") + 1;
  const [local, domain] = [text.slice(0, at), text.slice(at)];
  if (NO_DOMAIN.test(domain) || (isAscii(domain) && !/xn--/i.test(domain))) return [];
  const spellings = [domainToASCII(domain), domainToUnicode(domain)];
  return spellings.filter((other) => other !== "").map((other) => local + other);
}

/**
 * Spellings of a search term: as given, with ASCII digits, as addresses are stored, and with its
 * domain in Unicode and in Punycode.
 */
export function searchSpellings(term: string): string[] {
  const spellings = [term, foldDigits(term), asciiForm(term), ...domainSpellings(term)];
  return [...new Set(spellings)].filter((spelling) => spelling !== "");
}

/**
 * The form of a password that is hashed (RFC 8265 section 4.2.2, without its mapping of spaces).
 */
export const passwordForm = (text: string): string => text.normalize("NFC");

const forms: Partial<Record<TypedText, (text: string) => string>> = {
  [TypedText.TOKEN]: tokenForm,
  [TypedText.CODE]: codeForm,
  [TypedText.ADDRESS]: addressForm,
  [TypedText.NAME]: nameForm,
  [TypedText.SEARCH]: searchForm,
  [TypedText.NEW_PASSWORD]: passwordForm,
};

/** The typed fields of a message, by property name. */
const typedFields = remembered((schema: DescMessage) =>
  schema.fields.flatMap((field) => {
    const { typed } = getOption(field, fieldOption);
    return typed === TypedText.UNSPECIFIED ? [] : [{ name: field.localName, typed }];
  }),
);

/** Normalizes the text that people typed or pasted, in place, before it is validated. */
export function foldTypedTexts(schema: DescMessage, message: Message): void {
  const texts = message as Message & Record<string, unknown>;
  for (const { name, typed } of typedFields(schema)) {
    const text = texts[name];
    const max = typed === TypedText.TOKEN ? MAX_TOKEN_LENGTH : MAX_TYPED_LENGTH;
    if (typeof text !== "string" || text.length > max) continue;
    texts[name] = forms[typed]?.(text) ?? text;
  }
}

/**
 * A copy of the message with its passwords normalized for validation. The operation gets them as
 * typed, since older hashes are of the raw form.
 */
export function withComparedPasswords(schema: DescMessage, message: Message): Message {
  const texts = message as Message & Record<string, unknown>;
  const compared = typedFields(schema).flatMap(({ name, typed }) => {
    const text = texts[name];
    const isFolded = typed === TypedText.PASSWORD && typeof text === "string";
    return isFolded && text.length <= MAX_TYPED_LENGTH ? [[name, passwordForm(text)] as const] : [];
  });
  return compared.every(([name, text]) => texts[name] === text)
    ? message
    : { ...message, ...Object.fromEntries(compared) };
}
