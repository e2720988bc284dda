import type { SignedIn } from "./accounts.ts";

/** The sessions that GET /user/sessions lists. */
export const sessionsOf = async ({ browser, accessToken }: SignedIn) =>
  (await browser.get("/user/sessions", accessToken)).body;

/** The status of GET /user/profile: 200 while the session is open. */
export const profileStatus = async ({ browser, accessToken }: SignedIn) =>
  (await browser.get("/user/profile", accessToken)).status;
