import { expect, test } from "vitest";
import { startApp } from "../app.ts";
import { until } from "../until.ts";

test("a database that takes no writes, as after a failover, is away and no bug of ours", async () => {
  const app = await startApp({ mode: "embedded" }); // one connection, for which it is set
  await app.sql("set default_transaction_read_only = on");
  const account = { email: "ann@example.com", password: "Correct-horse-1", name: "Ann", acceptTerms: true };
  const answer = await app.visitor().post("/auth/register", account);
  expect(answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
  expect(answer.headers.get("retry-after")).toBe("2");
  expect((await app.visitor().get("/health/ready")).status).toBe(503);
  await app.sql("set default_transaction_read_only = off");
  await until("readiness", async () => (await app.visitor().get("/health/ready")).status === 200);
  expect(await app.visitor().post("/auth/register", account)).toMatchObject({ status: 201 });
  await app.close();
});
