import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { begin, commitMeanwhile } from "../../support/database/transaction.ts";
import { refusal } from "../../support/http/responses.ts";
import { until } from "../../support/until.ts";

const app = await testApp();

describe.skipIf(app.mode === "embedded")("Lock contention", () => {
  const url = app.settings.DATABASE_URL as string;
  test("a deadlock returns 503 with Retry-After", async () => {
    const { user, post } = await app.signIn();
    const ask = () => post("/auth/logout");
    const other = await begin(url, "select 1 from sessions where user_id = $1 for update", [
      user.id,
    ]);
    await other.run("set local deadlock_timeout = '1min'", []); // the deadlock is detected in the product's connection
    const pending = ask();
    await other.toBeWaitedFor();
    await other.run("select 1 from users where id = $1 for update", [user.id]);
    await other.commit();
    const answer = await pending;
    expect(answer).toMatchObject(refusal(503, "UNAVAILABLE"));
    expect(answer.headers.get("retry-after")).toBe("2");
    expect((await ask()).status).toBe(200);
  });

  test("the wrong password that locks an account does not deadlock with its erasure", async () => {
    const { id, email } = await app.addUser();
    for (let i = 0; i < 4; i++) await app.guess(email);
    const lock = "select 1 from users where id = $1 for update";
    const fifth = await commitMeanwhile(url, lock, [id], () => app.guess(email), [
      ["delete from attempts where subject = $1", [email]],
      ["delete from users where id = $1", [id]],
    ]);
    expect(fifth.status).toBe(401);
  });

  test("a notification to an account that is being erased fails no request", async () => {
    const [{ user, post }, owner] = [await app.signIn(), await app.addUser()];
    const ask = () =>
      post("/user/change-email", { newEmail: owner.email, password: user.password });
    const answer = await commitMeanwhile(url, "delete from users where id = $1", [owner.id], ask);
    expect(answer.status).toBe(200);
  });

  test("the erasure of a user while a search page is read does not end the list", async () => {
    const admin = await app.signInAdmin();
    const word = randomUUID().slice(0, 13);
    const ids: string[] = [];
    for (const i of [1, 2, 3])
      ids.unshift((await app.addUser({ email: `n${i}.${word}@example.com` })).id);
    const list = (cursor = "") => admin.get(`/admin/users?search=${word}&limit=1${cursor}`);
    const lock = "lock table attempts in access exclusive mode";
    const erasure: [string, unknown[]] = ["delete from users where id = $1", [ids[0]]];
    const first = await commitMeanwhile(url, lock, [], list, [erasure]); // waits between the ids and what it shows
    const seen: { id: string }[] = [];
    for (let { body } = first; ; { body } = await list(`&cursor=${body.nextCursor}`)) {
      seen.push(...body.items);
      if (!body.nextCursor) break;
    }
    expect(seen.map(({ id }) => id)).toEqual(ids.slice(1));
  });

  test("the cleanup job is not blocked by a locked impersonation, and deletes it before the session that opened it", async () => {
    const [admin, sentinel] = [await app.signInAdmin(), await app.signIn()];
    const user = await app.addUser();
    expect((await admin.post(`/admin/impersonate/${user.id}`, {})).status).toBe(200);
    expect((await admin.post("/auth/logout")).status).toBe(200);
    await sentinel.post("/auth/logout");
    const other = await begin(url, "select 1 from sessions where user_id = $1 for update", [
      user.id,
    ]);
    const cleared = (id: string) => async () =>
      (await app.sql("select 1 from sessions where user_id = ?", [id])).length === 0;
    app.clock.advance("1h");
    await until("the unlocked session to be deleted", cleared(sentinel.user.id));
    await other.commit();
    for (const id of [user.id, admin.user.id]) {
      app.clock.advance("1h");
      await until("the other sessions to be deleted", cleared(id));
    }
  });
});
