import { expect, test } from "vitest";
import { startApp } from "../support/app.ts";
import { createDatabase } from "../support/databases.ts";
import { startProxy } from "../support/proxy.ts";
import { tally, times } from "../support/until.ts";

test.runIf(process.env.TEST_SERVERS)(
  "POST /auth/register: an address in use causes no database error, so that no log has its hash",
  async () => {
    let replies = "";
    const proxy = await startProxy(await createDatabase(), (part) => {
      replies += part.toString("latin1");
    });
    const app = await startApp({ mode: "servers", env: { DATABASE_URL: proxy.url } });
    const account = { email: "ann@example.com", password: "Correct-horse-1", name: "Ann", acceptTerms: true };
    const answers = await Promise.all(times(5, () => app.httpClient().post("/auth/register", account)));
    expect(tally(answers, ({ status }) => status)).toEqual({ 201: 1, 409: 4 });
    expect(replies).toContain("canonical_email"); // a column of every reply about accounts
    expect(replies).not.toContain("users_canonical_email_unique");
    await app.close();
    await proxy.close();
  },
  60_000,
);
