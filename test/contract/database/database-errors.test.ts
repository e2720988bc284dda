import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApp, type TestApp } from "../../support/app.ts";

describe("a statement that the database refuses", () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startApp(); // its schema is changed
    await app.sql("alter table users add constraint users_unforeseen check (name <> 'Unforeseen')");
  });
  afterAll(() => app.close());

  test("is answered by 500 and logged once, by its code and place, without its values and without the row", async () => {
    const email = "secretive@example.com";
    const account = { email, password: "Correct-horse-1", name: "Unforeseen", acceptTerms: true };
    const answer = await app.httpClient().post("/auth/register", account);
    expect(answer).toMatchObject({ status: 500, body: { code: "INTERNAL" } });
    const failures = app.logs.map((line) => JSON.parse(line)).filter(({ level }) => level >= 50);
    expect(failures).toMatchObject([
      { err: { code: "23514", table: "users", constraint: "users_unforeseen", stack: expect.stringContaining("at ") } },
    ]);
    expect(app.logs.join("")).not.toMatch(/argon2id|secretive|Unforeseen"|insert into/);
  });
});
