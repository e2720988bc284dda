import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openExternal } from "../../../services/external/registry.ts";
import { requireConfig } from "../../../services/platform/config/config.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const open = (env: Record<string, string>) => openExternal(requireConfig(env));

function fileWith(content: unknown): string {
  const path = join(temporaryFolder(), "providers.json");
  writeFileSync(path, JSON.stringify(content));
  return path;
}

const acme = {
  id: "acme",
  name: "Acme",
  kind: "oidc",
  issuer: "https://login.acme.example",
  clientId: "gatehouse",
  secretVariable: "ACME_SECRET",
};
const withFile =
  (content: unknown, env = {}) =>
  () =>
    open({ SIGN_IN_PROVIDERS: fileWith(content), ACME_SECRET: "s3cret", ...env });

test("openExternal: a provider without a client id is not active", () => {
  expect(open({ GOOGLE_CLIENT_SECRET: "x" }).providers.size).toBe(0);
});

test("openExternal: reads shipped providers and those of a file, with defaults", () => {
  const key = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  const pem = key.export({ type: "pkcs8", format: "pem" }).toString().replaceAll("\n", "\\n");
  const { providers } = open({
    ...{ GOOGLE_CLIENT_ID: "g", GOOGLE_CLIENT_SECRET: "x" },
    ...{ APPLE_CLIENT_ID: "a", APPLE_TEAM_ID: "t", APPLE_KEY_ID: "k", APPLE_PRIVATE_KEY: pem },
    ...{ SIGN_IN_PROVIDERS: fileWith({ providers: [acme] }), ACME_SECRET: "y" },
  });
  expect([...providers.keys()]).toEqual(["google", "apple", "acme"]);
  expect(providers.get("acme")).toMatchObject({
    emails: "ignored",
    signUp: true,
    domains: [],
    scopes: "openid email profile",
  });
});

test.each([
  ["a client id without its secret", () => open({ GITHUB_CLIENT_ID: "x" }), "GITHUB_CLIENT_SECRET"],
  [
    "a key of Apple that is not one",
    () =>
      open({
        APPLE_CLIENT_ID: "a",
        APPLE_TEAM_ID: "t",
        APPLE_KEY_ID: "k",
        APPLE_PRIVATE_KEY: "hidden",
      }),
    "APPLE_PRIVATE_KEY",
  ],
  ["a missing file", () => open({ SIGN_IN_PROVIDERS: "/missing.json" }), "SIGN_IN_PROVIDERS"],
  ["a file of another shape", withFile([]), "SIGN_IN_PROVIDERS: file"],
  ["an id with other characters", withFile({ providers: [{ ...acme, id: "A/b" }] }), "lower-case"],
  ["a kind that files do not have", withFile({ providers: [{ ...acme, kind: "apple" }] }), "kind"],
  ["an unknown field", withFile({ providers: [{ ...acme, email: "x" }] }), "email"],
  ["an id that is listed twice", withFile({ providers: [acme, acme] }), '"acme" is listed twice'],
  [
    "a secret that is not set",
    withFile({ providers: [acme] }, { ACME_SECRET: "" }),
    "ACME_SECRET must",
  ],
  ["http", withFile({ providers: [{ ...acme, issuer: "http://login.acme.example" }] }), "https"],
  [
    "a user in the URL",
    withFile({ providers: [{ ...acme, issuer: "https://a@acme.example" }] }),
    "user",
  ],
  [
    "http of this machine in production",
    () =>
      openExternal({
        ...requireConfig({
          GOOGLE_CLIENT_ID: "g",
          GOOGLE_CLIENT_SECRET: "x",
          GOOGLE_ISSUER: "http://localhost:1",
        }),
        nodeEnv: "production",
      }),
    "https",
  ],
])("openExternal: rejects %s, without quoting secrets", (_what, opening, problem) => {
  expect(opening).toThrow(problem);
  expect(opening).not.toThrow(/hidden|s3cret/);
});
