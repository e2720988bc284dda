// Accounts: registration, sign-in, and the passwords and addresses of test users.

import { randomUUID } from "node:crypto";
import { createHttpClient, type HttpClient, withToken } from "./http/client.ts";
import type { Mailbox } from "./mail/mailbox.ts";

/** A user with the password that signs them in. */
export type TestUser = {
  id: string;
  email: string;
  name: string;
  password: string;
  credentials: { email: string; password: string };
};

/** A user with one session. */
export type SignedIn = Awaited<ReturnType<ReturnType<typeof createAccounts>["signIn"]>>;

export const PASSWORD = "Correct-horse-1";

/** Functions that create accounts over REST. */
export function createAccounts({
  httpClient,
  mail,
  makeAdmin,
}: {
  httpClient: () => HttpClient;
  mail?: Mailbox;
  makeAdmin?: (userId: string) => Promise<unknown>;
}) {
  /** Registers a new account. */
  async function addUser(
    changes: { email?: string; name?: string; role?: "admin"; locale?: string } = {},
  ): Promise<TestUser> {
    const email = changes.email ?? `${randomUUID()}@example.com`;
    const name = changes.name ?? "Ann Example";
    const { locale } = changes;
    const account = { email, password: PASSWORD, name, acceptTerms: true, locale };
    const { status, body } = await httpClient().post("/auth/register", account);
    if (status !== 201) throw new Error(`register answered ${status} ${JSON.stringify(body)}`);
    if (changes.role) await makeAdmin?.(body.userId);
    return {
      id: body.userId,
      email,
      name,
      password: PASSWORD,
      credentials: { email, password: PASSWORD },
    };
  }
  /** Registers a new account and verifies its address with the mailed token. */
  async function addVerifiedUser(changes: Parameters<typeof addUser>[0] = {}): Promise<TestUser> {
    const user = await addUser(changes);
    if (!mail) throw new Error("the mailbox is missing");
    const { token } = await mail.emailTo(user.email);
    const { status } = await httpClient().post("/auth/verify-email", { token });
    if (status !== 200) throw new Error(`verify-email answered ${status}`);
    return user;
  }
  /** Signs in an account, by default a new one. */
  async function signIn(given?: TestUser) {
    const user = given ?? (await addUser());
    const browser = httpClient();
    const { status, body } = await browser.post("/auth/login", user.credentials);
    if (status !== 200) throw new Error(`login answered ${status} ${JSON.stringify(body)}`);
    return {
      user,
      browser,
      refreshToken: body.refreshToken as string,
      ...withToken(browser, body.accessToken),
    };
  }
  return { addUser, addVerifiedUser, signIn };
}

/** Functions that create accounts at a process. */
export const accountsAt = (url: string) =>
  createAccounts({ httpClient: () => createHttpClient(url) });

/** Signs in a new account at a process. */
export const signInAt = (url: string) => accountsAt(url).signIn();

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
