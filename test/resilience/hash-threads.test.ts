import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism, getPriority } from "node:os";
import { expect, onTestFinished, test } from "vitest";
import { freshStorage } from "../support/databases.ts";
import { startProcess } from "../support/deployment.ts";
import { createHttpClient } from "../support/http-client.ts";
import { times, until } from "../support/until.ts";

test.skipIf(process.platform !== "linux")(
  "POST /auth/login: passwords are hashed on every core at low priority, and four threads are left for DNS and files",
  async () => {
    const env = { ...(await freshStorage()) };
    const product = await startProcess({ ...env, RATE_LIMITS: "off" });
    onTestFinished(async () => void (await product.end("SIGTERM")));
    const threads = () => {
      const folder = `/proc/${product.pid}/task`;
      const isPools = (thread: string) => readFileSync(`${folder}/${thread}/comm`, "utf8").trim() === "libuv-worker";
      return readdirSync(folder).filter((thread) => isPools(thread) && getPriority(Number(thread)) === 10).length;
    };
    const guess = (i: number) =>
      createHttpClient(product.url).post("/auth/login", { email: `user-${i}@example.com`, password: "Wrong-1-guess" });
    const guesses = times(20, guess);
    await until("the thread pool", () => threads() === availableParallelism() + 4);
    expect(new Set((await Promise.all(guesses)).map(({ status }) => status))).toEqual(new Set([401]));
  },
  30_000,
);
