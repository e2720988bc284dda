// The lock of an account, for devices that have signed in to it before, as it is by default.

import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { refusal } from "../../support/http/responses.ts";

const app = await testApp();

test("POST /auth/login: a lock holds for known devices too, unless the configuration exempts them", async () => {
  const { user, browser } = await app.signIn();
  await app.lock(user.email);
  expect(await browser.post("/auth/login", user.credentials)).toMatchObject(
    refusal(423, "ACCOUNT_LOCKED"),
  );
});
