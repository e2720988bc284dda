import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { startApp } from "../support/app.ts";
import { fillDisk, mountDisk, unmountDisk } from "../support/disk.ts";
import { until } from "../support/until.ts";

const disk = mountDisk("80m");

describe.skipIf(!disk)("PGlite on a full disk", () => {
  afterAll(() => unmountDisk(disk as string));

  test("is not ready, and is ready again once there is space", async () => {
    const path = disk as string;
    const app = await startApp({ mode: "embedded", env: { DATABASE_URL: "", DATA_DIR: join(path, "data") } });
    const readiness = async () => (await app.httpClient().get("/health/ready")).status;
    await until("readiness", async () => (await readiness()) === 200);
    const clear = fillDisk(path);
    await until("readiness to go", async () => (await readiness()) === 503);
    expect((await app.httpClient().get("/health/live")).status).toBe(200);
    clear();
    await until("readiness again", async () => (await readiness()) === 200);
    await app.close();
  });
});
