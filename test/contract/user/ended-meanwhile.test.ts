import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { profileStatus, sessionsOf } from "../../support/sessions.ts";
import { begin } from "../../support/transaction.ts";

const app = await testApp();
const password = "Correct-horse-1";
test.runIf(app.mode !== "embedded").each<[string, string, object?]>([
  ["DELETE", "/user/sessions"],
  ["DELETE", "/user/sessions/:id"],
  ["POST", "/user/change-password", { currentPassword: password, newPassword: "Brand-new-2" }],
  ["POST", "/user/change-email", { newEmail: "elsewhere@example.com", password }],
  ["POST", "/user/delete-account"],
  ["POST", "/auth/setup-totp"],
])("%s %s: changes nothing if the caller's session ends first", async (method, path, body) => {
  const user = await app.addUser();
  const [mine, other] = [await app.signIn(user), await app.signIn(user)];
  const [{ id }] = (await sessionsOf(mine)).filter(({ current }: { current: boolean }) => !current);
  const row = "select u.*, (select count(*) from one_time_tokens where user_id = u.id) from users u where id = ?";
  const account = () => app.sql(row, [user.id]);
  const before = await account();
  const lock = "select 1 from users where id = $1 for no key update";
  const end = await begin(app.settings.DATABASE_URL as string, lock, [user.id]);
  const authorization = `Bearer ${mine.accessToken}`;
  const response = mine.browser.send(method, path.replace(":id", id), body, { authorization });
  await end.toBeWaitedFor();
  await end.run("update sessions set revoked_at = now() where user_id = $1 and id <> $2", [user.id, id]);
  await end.commit();
  expect(await response).toMatchObject({ status: 401, body: { code: "UNAUTHENTICATED" } });
  expect(await profileStatus(other)).toBe(200);
  expect(await account()).toEqual(before);
});
