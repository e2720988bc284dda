import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { startApp } from "../../support/app.ts";
import { authenticatorOf, mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";
import { createDatabase } from "../../support/databases.ts";
import { runScript } from "../../support/deployment.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

const secret = () => randomBytes(32).toString("base64");

test.skipIf(!process.env.TEST_SERVERS)(
  "SECRET_KEY=new,old: decrypts secrets of the old key and encrypts them with the new one, until the old key is not needed",
  async () => {
    const [old, next] = [secret(), secret()];
    const DATABASE_URL = await createDatabase();
    const open = (SECRET_KEY: string) => startApp({ mode: "servers", env: { DATABASE_URL, SECRET_KEY } });
    const first = await open(old);
    const lost = await first.addVerifiedUser(); // its row comes first, and no key decrypts it
    await first.sql("update users set mfa_secret = 'of.another.key' where id = ?", [lost.id]);
    const { user, authenticator, accessToken } = await setUpFactor(first, await first.addVerifiedUser());
    await first.httpClient().post("/auth/forgot-password", { email: user.email });
    const { token } = await first.mail.emailTo(user.email, /Reset/);
    await first.close();

    const both = await open(`${next},${old}`);
    const profile = (app: typeof both) => app.httpClient().get("/user/profile", accessToken);
    expect((await profile(both)).status).toBe(200);
    const verify = async (app: typeof both, factor: object) =>
      app.httpClient().post("/auth/verify-mfa", { tempToken: await mfaTokenFor(app, user), ...factor });
    expect((await verify(both, { backupCode: authenticator.backupCodes[0] })).status).toBe(200);
    await until("every secret to be sealed with the new key", async () => {
      const sealed = await both.sql<{ sealed: string }>(
        "select mfa_secret as sealed from users where mfa_secret is not null union all select private_key from signing_keys",
      );
      return sealed.length === 3 && sealed.every((row) => row.sealed.includes("."));
    });
    expect((await verify(both, { code: await authenticatorOf(both, authenticator).code() })).status).toBe(200);
    await both.close();

    const last = await open(next);
    try {
      expect((await profile(last)).status).toBe(200);
      last.clock.advance("30s"); // the next code
      expect((await verify(last, { code: await authenticatorOf(last, authenticator).code() })).status).toBe(200);
      const reset = { token, password: "Brand-new-2" };
      expect((await last.httpClient().post("/auth/reset-password", reset)).body.code).toBe("TOKEN_INVALID"); // mailed with the old key
      const rotate = (env: Record<string, string>) => runScript("admin", ["rotate-keys"], { DATABASE_URL, ...env });
      const refused = { code: 2, out: expect.stringMatching(/^It didn't work: SECRET_KEY [^\n]+\n$/) };
      expect(await rotate({ SECRET_KEY: secret() })).toEqual(refused); // with another key no process could read the new one
      expect(await rotate({ DATA_DIR: temporaryFolder() })).toEqual(refused);
      expect(await rotate({ SECRET_KEY: next })).toMatchObject({ code: 0 });
      expect(await runScript("audit-verify", [], { DATABASE_URL, SECRET_KEY: next })).toMatchObject({ code: 0 });
      expect(await last.sql("select kid from signing_keys")).toHaveLength(2);
      expect((await profile(last)).status).toBe(200);
    } finally {
      await last.close();
    }
  },
);
