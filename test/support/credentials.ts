import { randomUUID } from "node:crypto";
import { PASSWORD } from "./accounts.ts";

export const WRONG_PASSWORD = "Wrong-1-guess";
export const NEW_PASSWORD = "Brand-new-2";
export const WRONG_CODE = { code: "000000" };

/** An address that no account has. */
export const freshEmail = () => `${randomUUID()}@example.com`;

/** The body of a registration. */
export const newAccount = (changes = {}) => {
  const account = { email: freshEmail(), password: PASSWORD, name: "Ann", acceptTerms: true };
  return { ...account, ...changes };
};
