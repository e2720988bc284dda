import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { invalid } from "../../support/http/responses.ts";

const app = await testApp();

/** Other spellings of the same address. */
const spellings = [
  { what: "letter case", from: "Mixed.ID@example.com", to: "mixed.ID@example.com" },
  { what: "spelling of the domain", from: "ID@bücher.example", to: "ID@xn--bcher-kva.example" },
];

test.each(spellings)(
  "POST /user/change-email: changes the $what of the user's own address with the mailed token",
  async ({ from, to }) => {
    const id = randomUUID();
    const [email, newEmail] = [from, to].map((text) => text.replace("ID", id)) as [string, string];
    const user = await app.addUser({ email });
    const { post, get } = await app.signIn(user);
    const { password } = user;
    expect((await post("/user/change-email", { newEmail, password })).status).toBe(200);
    expect((await get("/user/profile")).body.email).toBe(email);
    const { token } = await app.mail.emailTo(newEmail, /^Verify your new/);
    expect((await app.verifyEmail(token)).status).toBe(200);
    expect((await get("/user/profile")).body).toMatchObject({
      email: newEmail,
      emailVerified: true,
    });
    expect((await app.login(email)).status).toBe(200);
    expect(
      await app.sql("select id from emails where user_id = ? and template = 'address-in-use'", [
        user.id,
      ]),
    ).toEqual([]);
  },
);

test("POST /user/change-email: refuses the current address in the same spelling", async () => {
  const { user, post } = await app.signIn();
  const change = { newEmail: ` ${user.email}\u200b`, password: user.password };
  expect(await post("/user/change-email", change)).toMatchObject(invalid("newEmail"));
});
