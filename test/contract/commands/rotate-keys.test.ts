import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { startApp } from "../../support/app.ts";
import { createDatabase } from "../../support/database/databases.ts";
import { runScript } from "../../support/processes/processes.ts";
import { forTest } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";
import {
  expectSigned,
  startEndpoint,
  WEBHOOK_ENV,
  webhookActions,
} from "../../support/webhooks.ts";

const onServers = test.skipIf(!process.env.TEST_SERVERS);
const secret = () => randomBytes(32).toString("base64");

onServers(
  "SECRET_KEY=new,old: decrypts secrets with the old key and re-encrypts them with the new one",
  async () => {
    const [old, next] = [secret(), secret()];
    const DATABASE_URL = await createDatabase();
    const open = (SECRET_KEY: string) =>
      startApp({ mode: "servers", env: { ...WEBHOOK_ENV, DATABASE_URL, SECRET_KEY } });
    const first = await open(old);
    const lost = await first.addVerifiedUser(); // its row comes first, and no key decrypts it
    await first.sql("update users set mfa_secret = 'of.another.key' where id = ?", [lost.id]);
    const { user, authenticator, accessToken } = await first.setUpFactor(
      await first.addVerifiedUser(),
    );
    const token = await first.resetTokenFor(user.email);
    const webhooks = webhookActions(first);
    const endpoint = await forTest(startEndpoint());
    const admin = await webhooks.asAdmin();
    const form = { url: endpoint.url, events: ["user.profile_updated"] };
    const { body } = await admin.post("/admin/webhooks", form);
    const rotated = await admin.post(`/admin/webhooks/${body.webhook.id}/rotate-secret`, {});
    await first.close();

    const both = await open(`${next},${old}`);
    expect(await both.profileStatus(accessToken)).toBe(200);
    const verify = async (app: typeof both) =>
      (await app.signInBy(user, { code: await app.authenticatorOf(authenticator).code() })).status;
    expect((await both.signInBy(user, { backupCode: authenticator.backupCodes[0] })).status).toBe(
      200,
    );
    await until("every secret to be sealed with the new key", async () => {
      const sealed = await both.sql<{ sealed: string }>(
        "select mfa_secret as sealed from users where mfa_secret is not null union all select private_key from signing_keys union all select unnest(array[secret, previous_secret]) from webhooks",
      );
      return sealed.length === 5 && sealed.every((row) => row.sealed.includes("."));
    });
    expect(await verify(both)).toBe(200);
    await both.close();

    const last = await forTest(open(next));
    expect(await last.profileStatus(accessToken)).toBe(200);
    const renamed = await webhookActions(last).rename();
    const [received] = await endpoint.until("user.profile_updated", renamed.user.id);
    if (!received) throw new Error("nothing received");
    expectSigned(received, rotated.body.secret, body.secret);
    last.clock.advance("30s"); // the next code
    expect(await verify(last)).toBe(200);
    expect((await last.resetPassword(token)).body.code).toBe("TOKEN_INVALID"); // mailed with the old key
    const rotate = (env: Record<string, string>) =>
      runScript("admin", ["rotate-keys"], { DATABASE_URL, ...env });
    const refused = {
      code: 2,
      out: expect.stringMatching(/^Failed: SECRET_KEY [^\n]+\n$/),
    };
    expect(await rotate({ SECRET_KEY: secret() })).toEqual(refused); // with another key no process could read the new one
    expect(await rotate({ DATA_DIR: temporaryFolder() })).toEqual(refused);
    expect(await rotate({ SECRET_KEY: next })).toMatchObject({ code: 0 });
    expect(await runScript("audit-verify", [], { DATABASE_URL, SECRET_KEY: next })).toMatchObject({
      code: 0,
    });
    expect(await last.sql("select kid from signing_keys")).toHaveLength(2);
    expect(await last.profileStatus(accessToken)).toBe(200);
  },
);
