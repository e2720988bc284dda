import type { TestApp } from "./app.ts";

/** Somebody who has signed in, by one browser. */
export type SignedIn = Awaited<ReturnType<TestApp["signIn"]>>;

/** The sessions that GET /user/sessions lists. */
export const sessionsOf = async ({ browser, accessToken }: SignedIn) =>
  (await browser.get("/user/sessions", accessToken)).body;

/** Whether somebody is still let in, by the status of GET /user/profile. */
export const profileStatus = async ({ browser, accessToken }: SignedIn) =>
  (await browser.get("/user/profile", accessToken)).status;
