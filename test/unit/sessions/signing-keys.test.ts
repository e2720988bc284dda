import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { createCipher } from "../../../services/crypto/cipher.ts";
import { createRemoteKeys } from "../../../services/platform/gate/access-token.ts";
import { openKeyRing } from "../../../services/sessions/key-ring.ts";
import { createTokenPair, readRefreshToken } from "../../../services/sessions/tokens.ts";
import { createClock } from "../../support/clock.ts";
import { openQuietStore } from "../../support/database/store.ts";
import { forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const ID = "01890a5d-ac96-774b-bcce-b302099a8057";

/** The key rings of two processes. One has made a key that the other has not read yet. */
async function twoRings() {
  const store = await forTest(openQuietStore());
  await store.migrate();
  const clock = createClock();
  const open = () => openKeyRing(store, createCipher(Buffer.alloc(32, 1)), clock, 0);
  const [one, other] = [await open(), await open()];
  clock.advance("91d");
  await other.rotate();
  clock.advance("61m"); // the new key signs
  return { store, clock, one, other };
}

test("Signing keys: concurrent callers get the same new key", async () => {
  const { one, other } = await twoRings();
  const kid = (await other.jwks()).at(-1)?.kid as string;
  expect(await Promise.all(times(5, () => one.verificationKey(kid)))).not.toContain(undefined);
  expect(await one.verificationKey("unknown")).toBeUndefined();
});

test("Signing keys: a suspended process publishes a key that another one signs with", async () => {
  const { one, other } = await twoRings();
  expect(await one.jwks()).toEqual(await other.jwks());
});

test("Signing keys: a token whose key cannot be read is not rejected as invalid", async () => {
  const { store, clock, one, other } = await twoRings();
  const config = { publicUrl: "http://gatehouse.test" } as Parameters<
    typeof createTokenPair
  >[0]["config"];
  const now = clock.now();
  const session = {
    id: ID,
    generation: 0,
    rotatedAt: now,
    expiresAt: new Date(now.getTime() + 60_000),
    actorId: null,
    methods: [],
    createdAt: now,
  };
  const user = { id: ID, email: "ann@example.com", role: "user", metadata: null } as const;
  const { refreshToken } = createTokenPair(
    { config: { ...config, accessTokenTtlMs: 1_000 }, keys: other },
    session,
    user,
  );
  await store.fork().execute("drop table signing_keys");
  await expect(readRefreshToken({ config, keys: one, clock }, refreshToken)).rejects.toThrow();
  expect(await readRefreshToken({ config, keys: one, clock }, "not.a.token")).toBeUndefined();
  expect(await readRefreshToken({ config, keys: other, clock }, refreshToken)).toMatchObject({
    userId: ID,
  });
});

const published = (kid: string) => ({
  kid,
  x: generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" }).x as string,
});

test("Signing keys of a gateway: a new key is found by one fetch, even with a hundred unknown key ids", async () => {
  const keys = [published("first")];
  let fetches = 0;
  const remote = createRemoteKeys(async () => {
    fetches += 1;
    return [...keys];
  });
  expect(await remote.verificationKey("first")).toBeDefined();
  keys.push(published("second"));
  const unknown = times(100, (i) => remote.verificationKey(`made-up-${i}`));
  expect(await remote.verificationKey("second")).toBeDefined();
  expect(new Set(await Promise.all(unknown))).toEqual(new Set([undefined]));
  expect(fetches).toBe(2);
});

test("Signing keys of a gateway: the tokens of a withdrawn key are forgotten once the services reject one", async () => {
  const keys = [published("leaked")];
  const remote = createRemoteKeys(async () => [...keys]);
  expect(await remote.verificationKey("leaked")).toBeDefined();
  remote.verifiedTokens.set("a token of the leaked key", {});
  keys.splice(0, 1, published("new"));
  remote.recheck?.();
  await until("the token to be forgotten", () => remote.verifiedTokens.size === 0);
  expect(await remote.verificationKey("leaked")).toBeUndefined();
});

test("Signing keys: the withdrawal of a key replaces the verified tokens, and the remaining key signs", async () => {
  const { store, clock, one } = await twoRings();
  const before = one.verifiedTokens;
  await store
    .fork()
    .execute(
      "delete from signing_keys where active_at = (select min(active_at) from signing_keys)",
    );
  await one.watch();
  expect(one.verifiedTokens).not.toBe(before); // what is added to the former map is never read
  expect(one.signingKeyAt(clock.now()).kid).toBe((await one.jwks())[0]?.kid);
});
