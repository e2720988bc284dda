import { expect, test } from "vitest";
import { startSuiteApp } from "../../support/app.ts";

const app = await startSuiteApp({ mode: "embedded", env: { LOCKOUT_DURATION: "25m" } });
const NOTICE = /locked/;

test("POST /auth/login: the e-mail about a lock says when it ends, and a reset unlocks the account", async () => {
  const user = await app.addVerifiedUser();
  const before = app.clock.now().getTime();
  await app.lock(user.email);
  const after = app.clock.now().getTime();
  const { text = "" } = await app.mail.emailTo(user.email, NOTICE);
  const [, day, time] = /locked until (\d+ \w+ \d{4}) at (\d\d:\d\d) UTC/.exec(text) ?? [];
  const until = Date.parse(`${day} ${time} UTC`);
  expect(until).toBeGreaterThanOrEqual(before + 25 * 60_000);
  expect(until).toBeLessThan(after + 26 * 60_000);
  expect(text).toContain("Resetting your password unlocks the account immediately.");
  expect((await app.login(user.email)).status).toBe(423);
  expect((await app.resetPassword(await app.resetTokenFor(user.email))).status).toBe(200);
  expect((await app.login(user.email, "Brand-new-1")).status).not.toBe(423);
});

test("POST /auth/login: the e-mail about a permanent lock says how to unlock the account", async () => {
  const user = await app.addVerifiedUser();
  await app.guess(user.email);
  await app.sql("update attempts set consecutive = 99 where subject = ?", [user.email]);
  await app.guess(user.email);
  const { text } = await app.mail.emailTo(user.email, NOTICE);
  expect(text).toContain("This lock does not expire.");
  expect(text).toContain("Please reset your password by e-mail.");
  expect(text).not.toMatch(/9999|locked until/);
});

test("POST /auth/verify-mfa: the e-mail about wrong codes says when the lock ends, and a reset unlocks the account", async () => {
  const { user } = await app.setUpConfirmedFactor();
  for (let i = 0; i < 5; i++) await app.signInBy(user, { code: "000000" });
  const { text } = await app.mail.emailTo(user.email, NOTICE);
  expect(text).toMatch(/locked until \d+ \w+ \d{4} at \d\d:\d\d UTC/);
  expect(text).toContain("Resetting your password unlocks the account immediately.");
});
