import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { testApp } from "../app.ts";
import { tally, times } from "../until.ts";

const app = await testApp();
const wrong = "Wrong-1-guess";
const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;

describe("POST /auth/login", () => {
  test("takes the same time for known and unknown addresses", async () => {
    const users = await Promise.all(times(6, () => app.addUser()));
    const spent: [number[], number[]] = [[], []];
    const guess = async (email: string, into: number[]) => {
      const started = performance.now();
      expect((await app.visitor().post("/auth/login", { email, password: wrong })).status).toBe(401);
      into.push(performance.now() - started);
    };
    const unknown = times(6, () => `${randomUUID()}@example.com`);
    for (let round = 0; round < 4; round++) {
      for (let i = 0; i < 6; i++) {
        await guess(users[i]?.email as string, spent[0]);
        await guess(unknown[i] as string, spent[1]);
      }
    }
    const [known, nobody] = [median(spent[0]), median(spent[1])];
    expect(Math.abs(known - nobody)).toBeLessThan(Math.max(8, known * 0.4));
  });

  test("costs nothing with over-long input", async () => {
    const user = await app.addUser();
    const spent: number[] = [];
    for (let i = 0; i < 9; i++) {
      const started = performance.now();
      const answer = await app.visitor().post("/auth/login", { email: user.email, password: "x".repeat(10_000) });
      spent.push(performance.now() - started);
      expect(answer.status).toBe(400);
    }
    expect(median(spent)).toBeLessThan(50);
    expect(await app.sql("select failed from attempts where subject = ? and failed > 0", [user.email])).toEqual([]);
  });

  // an embedded database lets logins through more slowly than they are hashed: there the queue never fills
  test.skipIf(app.mode === "embedded")(
    "answers a storm by 503 with Retry-After beyond its queue, other routes staying open",
    async () => {
      const { browser, accessToken } = await app.signIn();
      const victims = times(600, () => `${randomUUID()}@example.com`);
      const storm = victims.map((email) => app.visitor().post("/auth/login", { email, password: wrong }));
      const reads: number[] = [];
      let stormy = true;
      const watching = (async () => {
        while (stormy && reads.length < 60) {
          const started = performance.now();
          expect((await browser.get("/user/profile", accessToken)).status).toBe(200);
          reads.push(performance.now() - started);
        }
      })();
      const answers = await Promise.all(storm);
      stormy = false;
      await watching;
      const told = tally(answers, (a) => a.status);
      expect((told[401] ?? 0) + (told[503] ?? 0)).toBe(600);
      expect(told[503]).toBeGreaterThan(0);
      expect(told[401]).toBeGreaterThan(256);
      const refused = answers.find((a) => a.status === 503);
      expect(refused?.body).toMatchObject({ statusCode: 503, code: "UNAVAILABLE", error: "Service Unavailable" });
      expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
      expect(reads.length).toBeGreaterThan(5);
      expect(await app.sql("select subject from attempts where reserved > 0")).toEqual([]);
    },
  );
});
