import { expect, test } from "vitest";
import { openQuietStore } from "../support/stores.ts";
import { times } from "../support/until.ts";

/** An embedded PostgreSQL that loses stack with each failure does not survive as many. */
const FAILURES = 6_000;

test("PGlite: works after thousands of failed statements", async () => {
  const store = await openQuietStore();
  const fail = () =>
    store.query({ name: "fail", text: "select 1 / $1::int" }, [0]).catch((error: Error) => error.message);
  const messages = new Set<unknown>();
  for (const _ of times(FAILURES, Number)) messages.add(await fail());
  expect([...messages]).toEqual(["division by zero"]);
  await store.ping();
  await store.close();
});
