import { expect, test } from "vitest";
import { startApp } from "../support/app.ts";
import { createDatabase } from "../support/databases.ts";
import { begin } from "../support/transaction.ts";
import { tally, times } from "../support/until.ts";

/** More than the connections of a process. */
const CALLS = 12;
/** The limit of a wait for a lock, including the delays of a busy machine. It is below the statement timeout. */
const SOON_MS = 10_000;

test.runIf(process.env.TEST_SERVERS)(
  "Store: a locked table leaves connections for other statements",
  async () => {
    const DATABASE_URL = await createDatabase();
    const app = await startApp({ mode: "servers", env: { DATABASE_URL } });
    const { browser, accessToken } = await app.signIn();
    const other = await begin(DATABASE_URL, "lock table emails in access exclusive mode", []);
    const account = { password: "Correct-horse-1", name: "Ann", acceptTerms: true };
    const register = (n: number) =>
      app.httpClient().post("/auth/register", { email: `locked-${n}@example.com`, ...account });
    const started = performance.now();
    const answers = await Promise.all(times(CALLS, register));
    expect(performance.now() - started).toBeLessThan(SOON_MS);
    expect(tally(answers, (a) => `${a.status} ${a.headers.get("retry-after")}`)).toEqual({ "503 2": CALLS });
    expect((await browser.get("/user/profile", accessToken)).status).toBe(200);
    await other.commit();
    expect((await register(0)).status).toBe(201);
    await app.close();
  },
  60_000,
);
