import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, importSPKI, jwtVerify } from "jose";
import jwksRsa from "jwks-rsa";
import { expect, test } from "vitest";
import { startSuiteApp } from "../../support/app.ts";
import { until } from "../../support/until.ts";

const app = await startSuiteApp(); // its clock moves by months

const jwks = async () =>
  (await app.httpClient().get("/.well-known/jwks.json")).body as { keys: { kid: string }[] };
const kids = async () => (await jwks()).keys.map(({ kid }) => kid);
/** Waits until every replica publishes so many keys: consecutive requests reach different ones. */
const untilKeys = (count: number) =>
  until(`${count} keys`, async () => {
    const lists = [await kids(), await kids()] as const;
    return lists.every(({ length }) => length === count) ? lists[0] : undefined;
  });
const kidOf = (token: string) => decodeProtectedHeader(token).kid as string;
const refresh = async (token: string) => (await app.refresh(token)).body;
const { profileStatus: profile } = app;

test("Signing keys: rotate without ending sessions, and are deleted once all tokens that they signed have expired", async () => {
  const [first] = await kids();
  app.clock.advance("89d");
  const early = await app.signIn();
  expect(kidOf(early.accessToken)).toBe(first);

  app.clock.advance("2d"); // 91 days old
  const [, second = ""] = await untilKeys(2);
  const before = await app.signIn();
  expect(kidOf(before.accessToken)).toBe(first); // the new key is published and not used yet: verifiers have to fetch it
  const mfaToken = await app.mfaTokenFor((await app.setUpFactor()).user);

  app.clock.advance("1h");
  const { accessToken, refreshToken } = await refresh(before.refreshToken);
  expect([kidOf(accessToken), kidOf(refreshToken)]).toEqual([second, second]);
  expect(await profile(accessToken)).toBe(200);
  const waiting = await refresh(early.refreshToken); // two days old, signed with the old key
  expect(kidOf(waiting.accessToken)).toBe(second);
  expect(kidOf(mfaToken)).toBe(first);

  const verifier = createLocalJWKSet((await jwks()) as Parameters<typeof createLocalJWKSet>[0]);
  for (const token of [before.accessToken, accessToken]) {
    const currentDate = new Date(((decodeJwt(token).iat ?? 0) + 1) * 1000);
    const rules = { issuer: "http://gatehouse.test", audience: "gatehouse", currentDate };
    const { payload } = await jwtVerify(token, verifier, rules);
    expect(payload.type).toBe("access");
  }

  app.clock.advance("6d");
  const kept = await refresh(refreshToken);
  expect((await kids()).length).toBe(2);
  app.clock.advance("26h"); // the last refresh token of the old key has expired for an hour
  expect(await untilKeys(1)).toEqual([second]);
  const still = await refresh(kept.refreshToken);
  expect(await profile(still.accessToken)).toBe(200);
  expect(await profile(before.accessToken)).toBe(401);
});

test("Signing keys: jwks-rsa finds the key of a token by its id, and not that of another id", async () => {
  const { user, accessToken } = await app.signIn();
  const client = jwksRsa({ jwksUri: `${app.url}/.well-known/jwks.json` });
  const found = await client.getSigningKey(kidOf(accessToken));
  const key = await importSPKI(found.getPublicKey(), "EdDSA");
  const { payload } = await jwtVerify(accessToken, key, { currentDate: app.clock.now() });
  expect(payload).toMatchObject({ sub: user.id, amr: ["pwd"], auth_time: expect.any(Number) });
  await expect(client.getSigningKey("other")).rejects.toThrow("other");
});

test("Signing keys: are encrypted in the database, and published without the private part", async () => {
  const rows = await app.sql<{ private_key: string }>("select private_key from signing_keys");
  for (const { private_key } of rows) expect(private_key).not.toMatch(/"d"|OKP/);
  for (const key of (await jwks()).keys)
    expect(Object.keys(key).sort()).toEqual(["alg", "crv", "kid", "kty", "use", "x"]);
});

test("Signing keys: the files of the secret and of e-mails are readable by their owner only", () => {
  const folder = app.settings.DATA_DIR as string;
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  expect(names).toContain("secret-key");
  const modeOf = (name: string) =>
    statSync(join(folder, name), { throwIfNoEntry: false })?.mode ?? 0;
  expect(names.filter((name) => (modeOf(name) & 0o77) !== 0)).toEqual([]);
});
