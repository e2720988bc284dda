import type { SignedIn } from "./accounts.ts";
import type { TestApp } from "./app.ts";

/** The sessions that GET /user/sessions lists. */
export const sessionsOf = async ({ get }: Pick<SignedIn, "get">) => (await get("/user/sessions")).body;

/** The status of GET /user/profile: 200 while the session is open. */
export const profileStatus = async ({ get }: Pick<SignedIn, "get">) => (await get("/user/profile")).status;

/** The same for an access token alone, from a new address. */
export const profileStatusBy = async (app: TestApp, token: string) =>
  (await app.httpClient().get("/user/profile", token)).status;

/** Refreshes by a cookie, from a new address. */
export const refreshBy = (app: TestApp, token: string | undefined, headers: Record<string, string> = {}) =>
  app.httpClient().send("POST", "/auth/refresh", undefined, {
    ...(token !== undefined && { cookie: `refreshToken=${token}` }),
    ...headers,
  });
