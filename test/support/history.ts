import { randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { randomAddress, sendHttp } from "./http-client.ts";

/** The outcome that a client knows: done, not done, or unknown. */
export type Outcome = "ok" | "failed" | "unknown";
export type Operation =
  | "register"
  | "verify"
  | "login"
  | "refresh"
  | "rename"
  | "change password"
  | "logout"
  | "use after logout"
  | "forgot"
  | "reset";
/** A request and its response. `value` is the new value, or the one-time token. */
export type Entry = {
  email: string;
  operation: Operation;
  outcome: Outcome;
  status: number;
  value?: string | undefined;
};
/** Tokens of a session whose end was acknowledged. */
type Ended = { accessToken: string; refreshToken: string };

/** The requests of all clients and their outcomes. */
export type History = { entries: Entry[]; ended: Ended[]; isOver: boolean };
type Settings = {
  urls: string[];
  emailToken: (email: string, subject: RegExp, not?: string) => Promise<string | undefined>;
};
type Body = Record<string, string>;

export const createHistory = (): History => ({ entries: [], ended: [], isOver: false });
/** Longest wait for a response, in ms. Every fault is shorter: what a frozen replica does later would count as done before. */
const TIMEOUT_MS = 40_000;

/** Runs clients one by one. Each registers an account, uses every operation on it, and records the outcomes. */
export async function runClients(history: History, settings: Settings): Promise<void> {
  while (!history.isOver) await useAccount(history, settings);
}

async function useAccount({ entries, ended }: History, { urls, emailToken }: Settings): Promise<void> {
  const email = `${randomUUID()}@example.com`;
  const address = randomAddress();
  let turn = Math.floor(Math.random() * urls.length);
  async function ask(
    operation: Operation,
    path: string,
    body: Body | undefined,
    options: { token?: string; cookie?: string; value?: string } = {},
  ) {
    const { token, cookie, value } = options;
    const headers = {
      "x-forwarded-for": address,
      ...(token && { authorization: `Bearer ${token}` }),
      ...(cookie && { cookie: `refreshToken=${cookie}` }),
    };
    const method = operation === "rename" ? "PUT" : operation === "use after logout" ? "GET" : "POST";
    const url = urls[turn++ % urls.length] as string;
    const answer = await Promise.race([
      sendHttp(url, method, path, body, headers).catch(() => undefined),
      wait(TIMEOUT_MS, undefined, { ref: false }),
    ]);
    const status = answer?.status ?? 0;
    const outcome = status >= 200 && status < 300 ? "ok" : status >= 400 && status < 500 ? "failed" : "unknown";
    entries.push({ email, operation, outcome, status, value });
    if (outcome === "unknown") await wait(100);
    return outcome === "ok" ? (answer?.body as Body) : undefined;
  }
  /** Repeats a request until its outcome is known, a few times. */
  async function insist(...request: Parameters<typeof ask>) {
    for (let tries = 0; tries < 8; tries++) {
      const body = await ask(...request);
      if (body || entries.at(-1)?.outcome === "failed") return body;
      await wait(300);
    }
    return undefined;
  }
  let password = "Correct-horse-1";
  const login = () => insist("login", "/auth/login", { email, password });
  const useTwice = async (operation: Operation, path: string, value: string, rest: Body = {}) => {
    const first = await insist(operation, path, { token: value, ...rest }, { value });
    await ask(operation, path, { token: value, ...rest }, { value });
    return first;
  };

  if (
    !(await ask("register", "/auth/register", { email, password, name: "Ann", acceptTerms: true as unknown as string }))
  )
    return;
  const proof = await emailToken(email, /./);
  if (proof) await useTwice("verify", "/auth/verify-email", proof);
  let session = await login();
  if (!session) return;
  for (const name of ["Bea", "Cleo"])
    await ask("rename", "/user/profile", { name }, { token: session.accessToken as string, value: name });
  session =
    (await insist("refresh", "/auth/refresh", undefined, { cookie: session.refreshToken as string })) ?? session;
  const next = "Brand-new-horse-2";
  const body = { currentPassword: password, newPassword: next };
  const changed = await ask("change password", "/user/change-password", body, {
    token: session.accessToken as string,
    value: next,
  });
  if (!changed && entries.at(-1)?.outcome === "unknown") return; // either password may work now
  if (changed) password = next;
  const other = await login();
  if (other) {
    const token = other.accessToken as string;
    if (await ask("logout", "/auth/logout", undefined, { token })) {
      ended.push(other as Ended);
      await ask("use after logout", "/user/profile", undefined, { token });
    }
  }
  if (!(await ask("forgot", "/auth/forgot-password", { email }))) return;
  const resetToken = await emailToken(email, /Reset/);
  const last = "Third-horse-3";
  if (resetToken) await useTwice("reset", "/auth/reset-password", resetToken, { password: last });
}
