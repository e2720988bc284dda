import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { refusal } from "../../support/http/responses.ts";
import { repetitions, statusesOf } from "../../support/tally.ts";

const app = await testApp();

test("POST /auth/verify-email: one of 50 concurrent uses of a token succeeds and verifies the address", async () => {
  for (let round = 0; round < repetitions(3); round++) {
    const user = await app.addUser();
    const { token } = await app.mail.emailTo(user.email);
    expect(await statusesOf(50, () => app.verifyEmail(token))).toEqual({ 200: 1, 400: 49 });
    const { get } = await app.signIn(user);
    expect((await get("/user/profile")).body.emailVerified).toBe(true);
  }
});

const update = (changes: string) => (id: string) =>
  app.sql(`update users set ${changes} where id = ?`, [id]);
const leave = update("email = 'new-' || email, canonical_email = 'new-' || canonical_email");

test.each([
  { route: "verify-email", what: "after 24 hours", end: () => app.clock.advance("24h") },
  { route: "verify-email", what: "for a former address of the account", end: leave },
  { route: "reset-password", what: "after an hour", end: () => app.clock.advance("1h") },
  { route: "reset-password", what: "for a former address of the account", end: leave },
  {
    route: "reset-password",
    what: "of an account whose deletion date has passed",
    end: update("deletion_at = '2000-01-01'"),
  },
])("POST /auth/$route: rejects a token $what", async ({ route, end }) => {
  const { id, email } = await app.addUser();
  const [token, use] =
    route === "verify-email"
      ? [(await app.mail.emailTo(email)).token, app.verifyEmail]
      : [await app.resetTokenFor(email), app.resetPassword];
  await end(id);
  expect(await use(token)).toMatchObject(refusal(400, "TOKEN_INVALID"));
});
