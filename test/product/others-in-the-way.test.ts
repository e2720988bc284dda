import { describe, expect, test } from "vitest";
import { testApp } from "../app.ts";
import { begin } from "../transaction.ts";

const app = await testApp();

describe.skipIf(app.mode === "embedded")("others in the way of a transaction", () => {
  const url = app.settings.DATABASE_URL as string;
  test("are told of as something that passes, when each waits for the other", async () => {
    const { user, browser, accessToken } = await app.signIn();
    const ask = () => browser.post("/auth/logout", undefined, accessToken);
    const other = await begin(url, "select 1 from sessions where user_id = $1 for update", [user.id]);
    await other.run("set local deadlock_timeout = '1min'", []); // the product's side is the one that notices
    const asked = ask();
    await other.toBeWaitedFor();
    await other.run("select 1 from users where id = $1 for update", [user.id]);
    await other.commit();
    const answer = await asked;
    expect(answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
    expect(answer.headers.get("retry-after")).toBe("2");
    expect((await ask()).status).toBe(200);
  });
});
