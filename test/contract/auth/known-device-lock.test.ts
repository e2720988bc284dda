// The lock of an account, for devices that have signed in to it before, as it is by default.

import { expect, test } from "vitest";
import { startSuiteApp, testApp } from "../../support/app.ts";
import { refusal } from "../../support/http/responses.ts";

const lock = { env: { LOCKOUT_KNOWN_DEVICES: "lock" } };
const app = await (process.env.TEST_FEATURES ? startSuiteApp(lock) : testApp());

test("POST /auth/login: a lock applies to known devices too, unless the configuration exempts them", async () => {
  const { user, browser } = await app.signIn();
  await app.lock(user.email);
  expect(await browser.post("/auth/login", user.credentials)).toMatchObject(
    refusal(423, "ACCOUNT_LOCKED"),
  );
});
