// What the workers of a run share: the first one that needs it makes it.

import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./until.ts";

/** Does something once in a run, and waits until it is done. A failure lets others try. */
export async function onceInRun(name: string, work: () => Promise<unknown>): Promise<void> {
  const [claim, done] = [join(tmpdir(), `${name}.claim`), join(tmpdir(), `${name}.done`)]; // in the folder of the run
  const isFirst = () => mkdirSync(claim, { recursive: true }) !== undefined;
  await until(name, async () => {
    if (existsSync(done)) return true;
    if (!isFirst()) return false;
    await work().catch((error) => {
      rmdirSync(claim);
      throw error;
    });
    writeFileSync(done, "");
    return true;
  });
}
