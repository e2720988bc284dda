import { describe, expect, test } from "vitest";
import { freshEmail, WRONG_PASSWORD } from "../../support/accounts.ts";
import { startSuiteApp } from "../../support/app.ts";
import { tally, times } from "../../support/tally.ts";
import { compareTimes, cycle, type Times } from "./compare-times.ts";

const app = await startSuiteApp({ realHashes: true });
/** Many more than may wait, since hashes are computed while requests arrive. */
const STORM = 900;

describe("POST /auth/login", () => {
  const attempt =
    (email: string, status = 401, password = WRONG_PASSWORD) =>
    async () =>
      expect((await app.login(email, password)).status).toBe(status);

  test("takes the same time for known and unknown addresses", async () => {
    const guesses = async (make: (i: number) => Promise<string> | string) =>
      (await Promise.all(times(18, make))).map((email) => attempt(email));
    const known = cycle(await guesses(async () => (await app.addUser()).email));
    const unknown = cycle(await guesses(freshEmail));
    const isAlike = ({ one, apart }: Times) => apart < Math.max(8, one * 0.4);
    expect(await compareTimes(24, known, unknown, isAlike)).toSatisfy(isAlike);
  });

  test("rejects a password of more than 128 characters without hashing it", async () => {
    const user = await app.addUser();
    const tooLong = attempt(user.email, 400, "x".repeat(129));
    const isFaster = ({ one, other }: Times) => one < other / 2;
    const hashed = () => attempt(freshEmail())();
    expect(await compareTimes(9, tooLong, hashed, isFaster)).toSatisfy(isFaster);
    expect(await app.sql("select failed from attempts where subject = ?", [user.email])).toEqual(
      [],
    );
  });

  // With an embedded database the queue never fills: it is slower than the hashes.
  test.skipIf(app.mode !== "apart")(
    "is 503 with Retry-After once the queue is full, and other requests are served",
    async () => {
      const account = await app.signIn();
      let isOver = false;
      const storm = Promise.all(times(STORM, () => app.guess(freshEmail()))).finally(() => {
        isOver = true;
      });
      for (let reads = 0; reads < 6; reads++)
        expect([await account.profileStatus(), isOver]).toEqual([200, false]);
      const answers = await storm;
      const statuses = tally(answers, (a) => a.status);
      expect((statuses[401] ?? 0) + (statuses[503] ?? 0)).toBe(STORM);
      expect(statuses[503]).toBeGreaterThan(0);
      expect(statuses[401]).toBeGreaterThan(256);
      const refused = answers.find((a) => a.status === 503);
      expect(refused?.body).toMatchObject({
        statusCode: 503,
        code: "UNAVAILABLE",
        error: "Service Unavailable",
      });
      expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
      expect(
        await app.sql("select subject from attempts where cardinality(reservations) > 0"),
      ).toEqual([]);
    },
  );
});
