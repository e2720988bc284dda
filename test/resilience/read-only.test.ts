import { expect, test } from "vitest";
import { startApp } from "../support/app.ts";
import { until } from "../support/until.ts";

test("GET /health: reports a read-only database, as after a failover, as unavailable, with one log line per change", async () => {
  const app = await startApp({ mode: "embedded" }); // one connection, which has the setting
  await app.sql("set default_transaction_read_only = on");
  const logged = () => app.logs.map((line) => JSON.parse(line).msg).filter((msg) => /^database/.test(msg));
  const account = { email: "ann@example.com", password: "Correct-horse-1", name: "Ann", acceptTerms: true };
  const answer = await app.httpClient().post("/auth/register", account);
  expect(answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
  expect(answer.headers.get("retry-after")).toBe("2");
  for (const again of [1, 2, 3]) {
    expect((await app.httpClient().post("/auth/register", { ...account, email: `${again}@example.com` })).status).toBe(
      503,
    );
  }
  expect((await app.httpClient().get("/health/ready")).status).toBe(503);
  expect(logged()).toEqual(["database unavailable"]);
  await app.sql("set default_transaction_read_only = off");
  await until("readiness", async () => (await app.httpClient().get("/health/ready")).status === 200);
  expect(await app.httpClient().post("/auth/register", account)).toMatchObject({ status: 201 });
  await until("the log line", () => logged().length > 1);
  expect(logged()).toEqual(["database unavailable", "database available again"]);
  await app.close();
});
