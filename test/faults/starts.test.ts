import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { createDatabase } from "../databases.ts";
import { times } from "../until.ts";
import { startProcess } from "./process.ts";

describe.skipIf(!process.env.TEST_SERVERS)("processes that start together on one empty PostgreSQL", () => {
  test("migrate once, agree on the signing key, and make one administrator", async () => {
    const DATABASE_URL = await createDatabase("together");
    const env = {
      DATABASE_URL,
      SECRET_KEY: Buffer.alloc(32, 7).toString("base64"),
      ADMIN_EMAIL: "root@example.com",
      ADMIN_PASSWORD: "Correct-horse-1",
    };
    const processes = await Promise.all(
      times(4, () => startProcess({ ...env, DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-together-")) })),
    );
    const client = new pg.Client(DATABASE_URL);
    await client.connect();
    const { rows } = await client.query(
      "select (select count(*)::int from signing_keys) as keys, (select count(*)::int from users where role = 'admin') as admins",
    );
    await client.end();
    const ends = await Promise.all(processes.map((process) => process.end("SIGTERM")));
    expect(rows).toEqual([{ keys: 1, admins: 1 }]);
    expect(ends).toEqual([0, 0, 0, 0]);
  }, 120_000);
});
