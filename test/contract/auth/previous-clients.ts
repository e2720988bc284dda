// What a client of the previous release does with accounts, and what it gets: see
// previous-answers.json.

import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import { generate } from "otplib";
import { PASSWORD, WRONG_PASSWORD } from "../../support/accounts.ts";
import type { HttpClient, HttpResponse } from "../../support/http/client.ts";

/**
 * An answer with a word for each token, time, id and message, and the claims of its access token.
 */
type Answer = { name: string; status: number; cookies: string[]; claims?: string[]; text: string };

const masked = (text: string) =>
  text
    .replace(/"(accessToken|refreshToken|tempToken)":"[\w.-]+"/g, '"$1":"token"')
    .replace(/"(\w+At|timestamp)":"\d{4}-\d\d-\d\dT[\d:.]+Z"/g, '"$1":"time"')
    .replace(/[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/g, "id")
    .replace(/"message":"[^"]*"/g, '"message":"text"')
    .replace(/"retryAfterSeconds":\d+/g, '"retryAfterSeconds":0');

/** A cookie without its value. Clients of the previous release ignore the others. */
const cookiesIn = ({ headers }: HttpResponse) =>
  headers
    .getSetCookie()
    .filter((line) => line.startsWith("refreshToken="))
    .map((line) => line.replace(/=[^;]*/, "=value").replace(/Expires=[^;]+; /, ""));

/**
 * Uses the routes that clients of the previous release use, on new accounts.
 * @param clientAt a client with its own address
 * @param epoch the time of the service, in seconds
 */
export async function useAsBefore(
  clientAt: () => HttpClient,
  epoch: () => number,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  const keep = (name: string, answer: HttpResponse): HttpResponse => {
    const { accessToken } = answer.body ?? {};
    const claims = accessToken && Object.keys(decodeJwt(accessToken)).sort();
    const { status, text } = answer;
    const cookies = cookiesIn(answer);
    answers.push({ name, status, cookies, ...(claims && { claims }), text: masked(text) });
    return answer;
  };
  const register = async () => {
    const account = {
      email: `${randomUUID()}@example.com`,
      password: PASSWORD,
      name: "Ann Example",
    };
    const form = { ...account, acceptTerms: true };
    keep("register", await clientAt().post("/auth/register", form));
    return { ...account, form };
  };

  const { form, ...first } = await register();
  keep("register again", await clientAt().post("/auth/register", form));
  const credentials = { email: first.email, password: first.password };
  const browser = clientAt();
  const login = keep("login", await browser.post("/auth/login", credentials));
  keep("profile", await browser.get("/user/profile", login.body.accessToken));
  const refreshed = keep("refresh", await browser.post("/auth/refresh"));
  keep("profile after refresh", await browser.get("/user/profile", refreshed.body.accessToken));
  keep("profile without a token", await browser.get("/user/profile"));
  keep("refresh without a cookie", await clientAt().post("/auth/refresh"));
  keep("login without a password", await browser.post("/auth/login", { email: first.email }));
  const wrong = { ...credentials, password: WRONG_PASSWORD };
  keep("login with a wrong password", await clientAt().post("/auth/login", wrong));
  const unknown = { ...credentials, email: `${randomUUID()}@example.com` };
  keep("login of nobody", await clientAt().post("/auth/login", unknown));
  for (let i = 0; i < 4; i++) await clientAt().post("/auth/login", wrong);
  keep("login of a locked account", await clientAt().post("/auth/login", credentials));
  keep("logout", await browser.post("/auth/logout", {}, refreshed.body.accessToken));
  keep("profile after logout", await browser.get("/user/profile", refreshed.body.accessToken));

  const { email, password } = await register();
  const owner = clientAt();
  const { accessToken } = (await owner.post("/auth/login", { email, password })).body;
  const { secret } = (await owner.post("/auth/setup-totp", {}, accessToken)).body;
  const pending = keep("login with TOTP", await owner.post("/auth/login", { email, password }));
  const { tempToken } = pending.body;
  const verify = (code: string) => owner.post("/auth/verify-mfa", { tempToken, code });
  keep("verify-mfa with a wrong code", await verify("000000"));
  const code = await generate({ secret, epoch: epoch() });
  const verified = keep("verify-mfa", await verify(code));
  keep("verify-mfa again", await verify(code));
  keep("refresh after verify-mfa", await owner.post("/auth/refresh"));
  keep("profile with TOTP", await owner.get("/user/profile", verified.body.accessToken));
  return answers;
}
