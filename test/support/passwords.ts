import { randomUUID } from "node:crypto";
import { PASSWORD } from "./accounts.ts";
import type { TestApp } from "./app.ts";

export const WRONG_PASSWORD = "Wrong-1-guess";
export const NEW_PASSWORD = "Brand-new-2";

/** An address that no account has. */
export const freshEmail = () => `${randomUUID()}@example.com`;

/** The body of a registration. */
export const newAccount = (changes = {}) => ({
  email: freshEmail(),
  password: PASSWORD,
  name: "Ann",
  acceptTerms: true,
  ...changes,
});

/** Signs in with a password. */
export const login = (app: TestApp, email: string, password: string = PASSWORD) =>
  app.httpClient().post("/auth/login", { email, password });

/** Signs in with a wrong password. */
export const guess = (app: TestApp, email: string, from = app.httpClient()) =>
  from.post("/auth/login", { email, password: WRONG_PASSWORD });

/** Locks an account by five wrong passwords. */
export async function lock(app: TestApp, email: string): Promise<void> {
  for (let i = 0; i < 5; i++) await guess(app, email);
}

/** Requests a reset of the password. @returns the mailed token */
export async function resetTokenFor(app: TestApp, email: string): Promise<string> {
  await app.httpClient().post("/auth/forgot-password", { email });
  return (await app.mail.emailTo(email, /Reset/)).token as string;
}

/** Sets a password by a mailed token. */
export const resetPassword = (app: TestApp, token: unknown, password = NEW_PASSWORD) =>
  app.httpClient().post("/auth/reset-password", { token, password });
