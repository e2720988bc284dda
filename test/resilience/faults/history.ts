import { setTimeout as wait } from "node:timers/promises";
import { freshEmail, newAccount } from "../../support/accounts.ts";
import { randomAddress, sendHttp } from "../../support/http/client.ts";

/** The passwords of each account: at first, after its change, after its reset. */
export const PASSWORDS = ["Correct-horse-1", "Brand-new-horse-2", "Third-horse-3"] as const;

const ROUTES = {
  register: "POST /auth/register",
  verify: "POST /auth/verify-email",
  login: "POST /auth/login",
  refresh: "POST /auth/refresh",
  rename: "PUT /user/profile",
  "change password": "POST /user/change-password",
  logout: "POST /auth/logout",
  "use after logout": "GET /user/profile",
  forgot: "POST /auth/forgot-password",
  reset: "POST /auth/reset-password",
};
export type Operation = keyof typeof ROUTES;
/**
 * A request and what its client knows: done, not done, or unknown. `value` is the new value, or the
 * one-time token.
 */
export type Entry = {
  email: string;
  operation: Operation;
  outcome: "ok" | "failed" | "unknown";
  status: number;
  value: string | undefined;
};
/** The requests of all clients, and the tokens of sessions whose end was acknowledged. */
export type History = ReturnType<typeof createHistory>;

export const createHistory = () => ({
  entries: [] as Entry[],
  ended: [] as { accessToken: string; refreshToken: string }[],
  isOver: false,
});

type Settings = {
  urls: string[];
  emailToken: (email: string, subject: RegExp) => Promise<string | undefined>;
};
type Request = { body?: object; token?: string; cookie?: string; value?: string };

/**
 * Longest wait for a response, in ms. Every fault is shorter: what a frozen replica does later
 * would count as done before.
 */
const TIMEOUT_MS = 40_000;

/**
 * Runs clients one by one. Each registers an account, uses every operation on it, and records the
 * outcomes.
 */
export async function runClients(history: History, settings: Settings): Promise<void> {
  while (!history.isOver) await useAccount(history, settings);
}

async function useAccount(
  { entries, ended }: History,
  { urls, emailToken }: Settings,
): Promise<void> {
  const email = freshEmail();
  const address = randomAddress();
  let turn = Math.floor(Math.random() * urls.length);
  async function ask(operation: Operation, { body, token, cookie, value }: Request) {
    const [method = "", path = ""] = ROUTES[operation].split(" ");
    const headers = {
      "x-forwarded-for": address,
      ...(token && { authorization: `Bearer ${token}` }),
      ...(cookie && { cookie: `refreshToken=${cookie}` }),
    };
    const url = urls[turn++ % urls.length] as string;
    const answer = await Promise.race([
      sendHttp(url, method, path, body, headers).catch(() => undefined),
      wait(TIMEOUT_MS, undefined, { ref: false }),
    ]);
    const status = answer?.status ?? 0;
    const outcome =
      status >= 200 && status < 300 ? "ok" : status >= 400 && status < 500 ? "failed" : "unknown";
    entries.push({ email, operation, outcome, status, value });
    if (outcome === "unknown") await wait(100);
    return outcome === "ok" ? answer?.body : undefined;
  }
  /** Repeats a request until its outcome is known, a few times. */
  async function insist(...request: Parameters<typeof ask>) {
    for (let tries = 0; tries < 8; tries++) {
      const body = await ask(...request);
      if (body || entries.at(-1)?.outcome === "failed") return body;
      await wait(300);
    }
  }
  async function useTwice(operation: Operation, token: string, rest = {}) {
    const request = { body: { token, ...rest }, value: token };
    await insist(operation, request);
    await ask(operation, request);
  }
  const [first, next, last] = PASSWORDS;
  let password: string = first;
  const login = () => insist("login", { body: { email, password } });

  if (!(await ask("register", { body: newAccount({ email, password }) }))) return;
  const proof = await emailToken(email, /./);
  if (proof) await useTwice("verify", proof);
  let session = await login();
  if (!session) return;
  for (const name of ["Bea", "Cleo"])
    await ask("rename", { body: { name }, token: session.accessToken, value: name });
  session = (await insist("refresh", { cookie: session.refreshToken })) ?? session;
  const body = { currentPassword: password, newPassword: next };
  const isChanged = await ask("change password", { body, token: session.accessToken, value: next });
  if (entries.at(-1)?.outcome === "unknown") return; // either password may work now
  if (isChanged) password = next;
  const other = await login();
  if (other && (await ask("logout", { token: other.accessToken }))) {
    ended.push(other);
    await ask("use after logout", { token: other.accessToken });
  }
  if (!(await ask("forgot", { body: { email } }))) return;
  const resetToken = await emailToken(email, /Reset/);
  if (resetToken) await useTwice("reset", resetToken, { password: last });
}
