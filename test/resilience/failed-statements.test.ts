import { pino } from "pino";
import { expect, test } from "vitest";
import { openStore } from "../../services/store/open-store.ts";
import { times } from "../support/until.ts";

/** More than an embedded PostgreSQL survives that loses a piece of its stack with each. */
const FAILURES = 6_000;

test("PGlite: works after thousands of failed statements", async () => {
  const store = await openStore({ kind: "memory" }, pino({ level: "silent" }));
  const fail = () =>
    store.query({ name: "fail", text: "select 1 / $1::int" }, [0]).catch((error: Error) => error.message);
  const told = new Set<unknown>();
  for (const _ of times(FAILURES, Number)) told.add(await fail());
  expect([...told]).toEqual(["division by zero"]);
  await store.ping();
  await store.close();
});
