import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { createRemoteKeys } from "../../../services/platform/access-token.ts";

const published = (kid: string) => ({
  kid,
  x: generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" }).x as string,
});

test("Remote keys: finds a new key after a fetch, also with a hundred unknown key ids", async () => {
  const keys = [published("first")];
  let fetches = 0;
  const remote = createRemoteKeys(async () => {
    fetches += 1;
    return [...keys];
  });
  expect(await remote.verificationKey("first")).toBeDefined();
  keys.push(published("second"));
  const unknown = Array.from({ length: 100 }, (_, i) => remote.verificationKey(`made-up-${i}`));
  expect(await remote.verificationKey("second")).toBeDefined();
  expect(new Set(await Promise.all(unknown))).toEqual(new Set([undefined]));
  expect(fetches).toBe(2);
});
