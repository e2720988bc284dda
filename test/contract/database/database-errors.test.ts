import { expect, test } from "vitest";
import { newAccount } from "../../support/accounts.ts";
import { startSuiteApp } from "../../support/app.ts";
import { refusal } from "../../support/http/responses.ts";

const app = await startSuiteApp(); // its schema is changed
await app.sql("alter table users add constraint users_unforeseen check (name <> 'Unforeseen')");

test("Database errors: a failed statement is 500 and logged once, with its code and place, without values or the row", async () => {
  const account = newAccount({ email: "secretive@example.com", name: "Unforeseen" });
  expect(await app.httpClient().post("/auth/register", account)).toMatchObject(
    refusal(500, "INTERNAL"),
  );
  const failures = app.logs.map((line) => JSON.parse(line)).filter(({ level }) => level >= 50);
  expect(failures).toMatchObject([
    {
      err: {
        code: "23514",
        table: "users",
        constraint: "users_unforeseen",
        stack: expect.stringContaining("at "),
      },
    },
  ]);
  expect(app.logs.join("")).not.toMatch(/argon2id|secretive|Unforeseen"|insert into/);
});
