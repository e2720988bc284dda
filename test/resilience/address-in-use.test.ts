import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { startApp } from "../support/app.ts";
import { createDatabase } from "../support/databases.ts";
import { startProxy } from "../support/proxy.ts";
import { tally, times } from "../support/until.ts";

test.runIf(process.env.TEST_SERVERS)(
  "POST /auth/register: an address in use causes no database error, whose log would hold the hash",
  async () => {
    const database = new URL(await createDatabase(`taken_${randomUUID().slice(0, 8)}`));
    let said = "";
    const proxy = await startProxy({ host: database.hostname, port: Number(database.port || 5432) }, (part) => {
      said += part.toString("latin1");
    });
    database.host = `127.0.0.1:${proxy.port}`;
    const app = await startApp({ mode: "servers", env: { DATABASE_URL: database.href } });
    const account = { email: "ann@example.com", password: "Correct-horse-1", name: "Ann", acceptTerms: true };
    const answers = await Promise.all(times(5, () => app.httpClient().post("/auth/register", account)));
    expect(tally(answers, ({ status }) => status)).toEqual({ 201: 1, 409: 4 });
    expect(said).toContain("canonical_email"); // as in every answer about accounts: the proxy hears
    expect(said).not.toContain("users_canonical_email_unique");
    await app.close();
    await proxy.close();
  },
  60_000,
);
