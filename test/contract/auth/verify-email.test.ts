import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { refusal } from "../../support/failures.ts";
import { repetitions } from "../../support/repeat.ts";
import { tally, times } from "../../support/until.ts";

const app = await testApp();
const { verifyEmail: verify } = app;
const refused = refusal(400, "TOKEN_INVALID");

async function newcomer() {
  const user = await app.addUser();
  const { token } = await app.mail.emailTo(user.email);
  return { user, token: token as string };
}

test("POST /auth/verify-email: accepts the mailed token once", async () => {
  const { user, token } = await newcomer();
  expect(await verify(token)).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  expect(await verify(token)).toMatchObject(refused);
  const { get } = await app.signIn(user);
  expect((await get("/user/profile")).body.emailVerified).toBe(true);
});

test("POST /auth/verify-email: 50 parallel uses have one success", async () => {
  for (let round = 0; round < repetitions(3); round++) {
    const { token } = await newcomer();
    const answers = await Promise.all(times(50, () => verify(token)));
    expect(tally(answers, (a) => a.status)).toEqual({ 200: 1, 400: 49 });
  }
});

test("POST /auth/verify-email: refuses the token of an address that the account no longer has", async () => {
  const { user, token } = await newcomer();
  const leave = "update users set email = 'new-' || email, canonical_email = 'new-' || canonical_email where id = ?";
  await app.sql(leave, [user.id]);
  expect(await verify(token)).toMatchObject(refused);
});

test("POST /auth/verify-email: refuses a token after 24 hours", async () => {
  const { token } = await newcomer();
  app.clock.advance("24h");
  expect(await verify(token)).toMatchObject(refused);
});
