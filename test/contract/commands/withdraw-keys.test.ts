import { randomBytes } from "node:crypto";
import { decodeJwt, decodeProtectedHeader, importJWK, type JWTPayload, SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { createCipher } from "../../../services/crypto/cipher.ts";
import { startApp, type TestApp } from "../../support/app.ts";
import { createDatabase } from "../../support/database/databases.ts";
import { runScript } from "../../support/processes/processes.ts";
import { describeIf, forSuite } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

const key = randomBytes(32);
const SECRET_KEY = key.toString("base64");

/** What a thief of the active signing key can do: sign any claims. */
async function stealKey(app: TestApp) {
  const [row] = await app.sql<{ kid: string; private_key: string }>(
    "select kid, private_key from signing_keys order by active_at desc limit 1",
  );
  const kid = row?.kid ?? "";
  const jwk = JSON.parse(createCipher(key).decrypt(row?.private_key ?? "", kid));
  const privateKey = await importJWK(jwk, "EdDSA");
  const header = { alg: "EdDSA", typ: "JWT", kid };
  /** A token with the claims of another, in a new text that no process has seen. */
  const forge = (token: string, changes: JWTPayload = {}) =>
    new SignJWT({ ...decodeJwt(token), nonce: randomBytes(8).toString("hex"), ...changes })
      .setProtectedHeader(header)
      .sign(privateKey);
  return { kid, forge };
}

const kidsAt = async (app: TestApp): Promise<string[]> => {
  const { body } = await app.httpClient().get("/.well-known/jwks.json");
  return body.keys.map(({ kid }: { kid: string }) => kid);
};

describeIf(
  process.env.TEST_SERVERS,
  "npm run admin -- rotate-keys --now, beside replicas",
  async () => {
    const DATABASE_URL = await createDatabase();
    const env = { DATABASE_URL, SECRET_KEY };
    const one = await forSuite(startApp({ mode: "servers", env }));
    const SMTP_URL = one.settings.SMTP_URL; // each worker sends the mail that any replica queues
    const other = await forSuite(startApp({ mode: "apart", env: { ...env, SMTP_URL } }));
    const all = [one, other];
    const storedKids = async () =>
      (await one.sql<{ kid: string }>("select kid from signing_keys")).map(({ kid }) => kid);
    const withdraw = () => runScript("admin", ["rotate-keys", "--now"], env);

    test("every token of the withdrawn key is refused on every replica within a second, and new tokens have a new key", async () => {
      const { user, accessToken, refreshToken } = await one.signIn();
      const mfaToken = await one.mfaTokenFor((await one.setUpFactor()).user);
      for (const app of all) expect(await app.profileStatus(accessToken)).toBe(200); // cached now
      const { kid, forge } = await stealKey(one);
      expect(await withdraw()).toEqual({
        code: 0,
        out: expect.stringMatching(/ sessions have ended/),
      });
      for (const app of all) {
        expect(await app.profileStatus(accessToken)).toBe(401);
        await until(
          "the key to be withdrawn",
          async () => !(await kidsAt(app)).includes(kid),
          1_500,
        );
      }
      for (const app of all) {
        expect((await app.refresh(refreshToken)).status).toBe(401);
        expect((await app.verifyMfa(mfaToken, { code: "123456" })).status).toBe(401);
        const again = await app.signIn(user);
        expect(decodeProtectedHeader(again.accessToken).kid).not.toBe(kid);
        const { browser: _same, ...tokens } = again;
        for (const reader of all) {
          expect(await reader.profileStatus(tokens.accessToken)).toBe(200);
          expect(await reader.profileStatus(await forge(tokens.accessToken))).toBe(401);
          expect((await reader.refresh(await forge(tokens.refreshToken))).status).toBe(401);
        }
        expect(await app.profileStatus(tokens.accessToken)).toBe(200); // a refused forgery ends no session
        expect((await app.refresh(tokens.refreshToken)).status).toBe(200);
      }
      expect(await kidsAt(one)).toEqual(await kidsAt(other));
    });

    test("mailed links and passwords stay valid, and the withdrawal is recorded", async () => {
      const user = await one.addVerifiedUser();
      const token = await one.resetTokenFor(user.email);
      expect((await withdraw()).code).toBe(0);
      expect((await one.resetPassword(token)).status).toBe(200);
      const events = await one.sql<{ event: string; details: object }>(
        "select event, details from audit_events where event like 'admin.%' order by id desc limit 2",
      );
      expect(events).toEqual([
        { event: "admin.sessions_revoked", details: { sessions: expect.any(Number) } },
        { event: "admin.keys_withdrawn", details: { keys: 1 } },
      ]);
    });

    test("leaves one key if operators run it concurrently while users sign in and refresh", async () => {
      const user = await one.addUser();
      const use = async (app: TestApp) => {
        const { status, body } = await app.login(user.email);
        expect(status).toBe(200);
        expect([200, 401]).toContain((await app.refresh(body.refreshToken)).status);
      };
      const [first, second] = await Promise.all([
        withdraw(),
        withdraw(),
        ...Array.from({ length: 12 }, (_, i) => use(all[i % 2] as TestApp)),
      ]);
      expect([first, second]).toMatchObject([{ code: 0 }, { code: 0 }]);
      const stored = await storedKids();
      expect(stored).toHaveLength(1);
      for (const app of all)
        await until("the stored key alone", async () => `${await kidsAt(app)}` === `${stored}`);
      for (const app of all) {
        const { accessToken } = await app.signIn(user);
        for (const reader of all) expect(await reader.profileStatus(accessToken)).toBe(200);
      }
    });

    test("requires the SECRET_KEY of the service, and rejects other options", async () => {
      const before = await storedKids();
      const wrong = { ...env, SECRET_KEY: randomBytes(32).toString("base64") };
      expect((await runScript("admin", ["rotate-keys", "--now"], wrong)).code).toBe(2);
      expect((await runScript("admin", ["rotate-keys", "--later"], env)).code).toBe(2);
      expect(await storedKids()).toEqual(before);
    });
  },
);

describe("npm run admin -- rotate-keys --now, on the embedded database", () => {
  test("ends every session while the service is stopped", async () => {
    const DATA_DIR = temporaryFolder();
    const env = { DATABASE_URL: "", SECRET_KEY, DATA_DIR };
    const before = await startApp({ mode: "embedded", env });
    const { user, accessToken, refreshToken } = await before.signIn();
    const { forge } = await stealKey(before);
    await before.close();
    expect(
      (await runScript("admin", ["rotate-keys", "--now"], { SECRET_KEY, DATA_DIR })).code,
    ).toBe(0);
    const after = await startApp({ mode: "embedded", env });
    try {
      expect(await after.profileStatus(accessToken)).toBe(401);
      expect((await after.refresh(refreshToken)).status).toBe(401);
      const again = await after.signIn(user);
      expect(await after.profileStatus(await forge(again.accessToken))).toBe(401);
      expect(await after.profileStatus(again.accessToken)).toBe(200);
    } finally {
      await after.close();
    }
  });
});
