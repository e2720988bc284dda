import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { startApp } from "../support/app.ts";
import { until } from "../support/until.ts";

/** A small disk of its own; undefined where none may be made. */
function mountDisk(): string | undefined {
  const path = mkdtempSync(join(tmpdir(), "gatehouse-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=80m", "tmpfs", path], { stdio: "ignore" });
    return path;
  } catch {
    return undefined;
  }
}

const disk = mountDisk();

describe.skipIf(!disk)("PGlite on a full disk", () => {
  afterAll(() => void execFileSync("umount", ["--lazy", disk as string]));

  test("is not ready, and is ready again once there is space", async () => {
    const path = disk as string;
    const app = await startApp({ mode: "embedded", env: { DATABASE_URL: "", DATA_DIR: join(path, "data") } });
    const readiness = async () => (await app.httpClient().get("/health/ready")).status;
    await until("readiness", async () => (await readiness()) === 200);
    const { bavail, bsize } = statfsSync(path);
    writeFileSync(join(path, "fill"), Buffer.alloc(bavail * bsize));
    await until("readiness to go", async () => (await readiness()) === 503);
    expect((await app.httpClient().get("/health/live")).status).toBe(200);
    rmSync(join(path, "fill"));
    await until("readiness again", async () => (await readiness()) === 200);
    await app.close();
  });
});
