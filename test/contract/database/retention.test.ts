import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { NIL } from "uuid";
import { expect, onTestFinished, test } from "vitest";
import { startApp } from "../../support/app.ts";
import { until } from "../../support/until.ts";

test("EMAIL_RETENTION and UNVERIFIED_RETENTION: delete old e-mails, and accounts that were never verified nor used", async () => {
  const app = await startApp({ env: { UNVERIFIED_RETENTION: "30d" } });
  onTestFinished(() => app.close());
  const [unused, used, verified] = [await app.addUser(), await app.addUser(), await app.addVerifiedUser()];
  const ids = [unused.id, used.id, verified.id];
  const left = async () =>
    (await app.sql<{ id: string }>("select id from users where id in (?)", [ids])).map(({ id }) => id);
  const emails = () => app.sql("select id from emails where user_id in (?)", [ids]);
  /** Moves on until a job has run; it leaves locked rows to the next run. */
  const passes = (what: string, check: () => Promise<boolean>) =>
    until(what, async () => {
      if (await check()) return true;
      await wait(1_100);
      app.clock.advance("1h");
      return false;
    });
  app.clock.advance("29d");
  await app.signIn(used);
  app.clock.advance("2d");
  await passes("the unused account to be erased", async () => (await left()).length === 2);
  expect((await left()).sort()).toEqual([used.id, verified.id].sort());
  expect(await emails()).not.toEqual([]);
  app.clock.advance("60d");
  await passes("old e-mails to be deleted", async () => (await emails()).length === 0);
  if (process.env.TEST_MODE && process.env.TEST_MODE !== "embedded") return; // sent by SMTP
  const folder = join(app.settings.DATA_DIR as string, "mail");
  const files = () => readdirSync(folder).filter((name) => name.endsWith(".eml"));
  const latest = await app.addUser();
  await app.mail.emailTo(latest.email);
  writeFileSync(join(folder, `${NIL}.eml`), "an e-mail of 1970");
  await passes("old files to be deleted", async () => !files().includes(`${NIL}.eml`));
  const [kept] = await app.sql<{ id: string }>("select id from emails where user_id = ?", [latest.id]);
  expect(files()).toEqual([`${kept?.id}.eml`]);
});
