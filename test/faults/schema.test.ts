import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { startApp } from "../app.ts";
import { createDatabase } from "../databases.ts";

describe("a start that leaves the schema alone", () => {
  test("is refused by a database that lacks migrations, and told what to do", async () => {
    const start = startApp({ mode: "embedded", env: { MIGRATE: "off" } });
    await expect(start).rejects.toThrow(/^The database lacks (\d+) of \1 migrations\. Run npm run migrate /);
  });

  test.runIf(process.env.TEST_SERVERS)("serves a database of a newer version, and tells of it", async () => {
    const env = {
      DATABASE_URL: await createDatabase(`newer_${randomUUID().slice(0, 8)}`),
      SECRET_KEY: randomBytes(32).toString("base64"),
    };
    const first = await startApp({ mode: "servers", env });
    await first.sql("insert into mikro_orm_migrations (name) values ('Migration30000101000000_later')");
    await first.close();
    const again = await startApp({ mode: "servers", env: { ...env, MIGRATE: "off" } });
    expect((await again.visitor().get("/health/ready")).status).toBe(200);
    const told = [...first.logs, ...again.logs].filter((line) => line.includes("newer version"));
    expect(told).toEqual([expect.stringContaining("Migration30000101000000_later")]);
    await again.close();
  });
});
