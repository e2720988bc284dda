import { createHmac, createPrivateKey, generateKeyPairSync, type KeyObject, sign as signBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { decodeJwt, decodeProtectedHeader, type JWTPayload, SignJWT } from "jose";
import { beforeAll, expect, test } from "vitest";
import { createCipher } from "../../../services/crypto/cipher.ts";
import { testApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";

const app = await testApp();
const kinds = ["access", "refresh", "mfaToken", "verification", "reset", "change"] as const;
type Kind = (typeof kinds)[number];
const signed = ["access", "refresh", "mfaToken"] as const;

/** The places that accept tokens, the accepted kinds, and the status of a refusal. The code of the MFA token is correct. */
const entries: Record<string, { takes: Kind[]; send: (token: string) => Promise<number>; refused: number }> = {
  "Authorization: Bearer": {
    takes: ["access"],
    refused: 401,
    send: async (token) => (await app.httpClient().get("/user/profile", token)).status,
  },
  "POST /auth/refresh": {
    takes: ["refresh"],
    refused: 401,
    send: async (token) =>
      (await app.httpClient().send("POST", "/auth/refresh", undefined, { cookie: `refreshToken=${token}` })).status,
  },
  "POST /auth/verify-mfa": {
    takes: ["mfaToken"],
    refused: 401,
    send: async (tempToken) =>
      (await app.httpClient().post("/auth/verify-mfa", { tempToken, code: await made.code() })).status,
  },
  "POST /auth/verify-email": {
    takes: ["verification", "change"],
    refused: 400,
    send: async (token) => (await app.httpClient().post("/auth/verify-email", { token })).status,
  },
  "POST /auth/reset-password": {
    takes: ["reset"],
    refused: 400,
    send: async (token) =>
      (await app.httpClient().post("/auth/reset-password", { token, password: "Brand-new-2" })).status,
  },
};

let made: { tokens: Record<Kind, string>; code: () => Promise<string> };

/** One good token of every kind, of one user. */
async function makeTokens(): Promise<typeof made> {
  const account = await setUpFactor(app);
  const { user, browser, accessToken, refreshToken, authenticator } = account;
  const { token: verification = "" } = await app.mail.emailTo(user.email, /Confirm/);
  const newEmail = `new-${user.email}`;
  await browser.post("/user/change-email", { newEmail, password: user.password }, accessToken);
  const { token: change = "" } = await app.mail.emailTo(newEmail);
  await app.httpClient().post("/auth/forgot-password", { email: user.email });
  const { token: reset = "" } = await app.mail.emailTo(user.email, /Reset/);
  const mfaToken = await mfaTokenFor(app, user);
  const tokens = { access: accessToken, refresh: refreshToken, mfaToken, verification, reset, change };
  return { tokens, code: () => authenticator.code() };
}

/** The signing key of the product, for forged claims. */
async function signer(): Promise<{ kid: string; key: KeyObject; publicKey: string }> {
  const [row] = await app.sql<{ kid: string; public_key: string; private_key: string }>("select * from signing_keys");
  if (!row) throw new Error("no signing key");
  const secret = Buffer.from(readFileSync(join(app.settings.DATA_DIR as string, "secret-key"), "utf8"), "base64");
  const jwk = JSON.parse(createCipher(secret).decrypt(row.private_key, row.kid));
  return { kid: row.kid, key: createPrivateKey({ key: jwk, format: "jwk" }), publicKey: row.public_key };
}

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const hs256 = (header: object, claims: JWTPayload, key: string | Buffer) => {
  const text = `${part({ alg: "HS256", ...header })}.${part(claims)}`;
  return `${text}.${createHmac("sha256", key).update(text).digest("base64url")}`;
};
const byHand = (header: object, claims: JWTPayload, key: KeyObject) => {
  const text = `${part(header)}.${part(claims)}`;
  return `${text}.${signBytes(null, Buffer.from(text), key).toString("base64url")}`;
};
const sign = (claims: JWTPayload, header: object, key: KeyObject) =>
  new SignJWT(claims).setProtectedHeader({ alg: "EdDSA", ...header }).sign(key);

/** Invalid tokens that are almost valid. */
async function forgeries(token: string): Promise<[string, string][]> {
  const { kid, key, publicKey } = await signer();
  const [head = "", body = "", signature = ""] = token.split(".");
  const claims = decodeJwt(token);
  const header = decodeProtectedHeader(token);
  const foreign = generateKeyPairSync("ed25519");
  const raw = Buffer.from(publicKey, "base64url");
  const jwk = foreign.publicKey.export({ format: "jwk" });
  const without = Object.keys(claims)
    .filter((name) => !["email", "role"].includes(name)) // informative: the product does not use them
    .map(async (name): Promise<[string, string]> => {
      const { [name]: _, ...rest } = claims;
      return [`without ${name}`, await sign(rest, { kid }, key)];
    });
  return [
    ["truncated", token.slice(0, -3)],
    ["without signature", `${head}.${body}.`],
    ["with another signature", `${head}.${body}.${signature.split("").reverse().join("")}`],
    ["with altered claims", `${head}.${part({ ...claims, sub: "01890000-0000-7000-8000-000000000000" })}.${signature}`],
    ["alg none", `${part({ ...header, alg: "none" })}.${body}.`],
    ["alg None", `${part({ ...header, alg: "None" })}.${body}.`],
    ["HS256 with the public key's bytes", hs256({ kid }, claims, raw)],
    ["HS256 with the public key's text", hs256({ kid }, claims, publicKey)],
    [
      "HS256 with the public key as JWK",
      hs256({ kid }, claims, JSON.stringify({ kty: "OKP", crv: "Ed25519", x: publicKey })),
    ],
    ["unknown kid", await sign(claims, { kid: "unknown" }, foreign.privateKey)],
    ["known kid, foreign key", await sign(claims, { kid }, foreign.privateKey)],
    ["key in the header", await sign(claims, { kid, jwk }, foreign.privateKey)],
    ["no kid", await sign(claims, {}, key)],
    ["a critical extension", byHand({ alg: "EdDSA", kid, crit: ["exp"], exp: 1 }, claims, key)],
    ["expired", await sign({ ...claims, exp: Math.floor(app.clock.now().getTime() / 1000) - 1 }, { kid }, key)],
    ["of another issuer", await sign({ ...claims, iss: "http://evil.test" }, { kid }, key)],
    ["for another audience", await sign({ ...claims, aud: "other" }, { kid }, key)],
    ["of another type", await sign({ ...claims, type: "other" }, { kid }, key)],
    ["not yet valid", await sign({ ...claims, nbf: Math.floor(app.clock.now().getTime() / 1000) + 600 }, { kid }, key)],
    ["for an unknown user", await sign({ ...claims, sub: "01890000-0000-7000-8000-000000000000" }, { kid }, key)],
    ["for a malformed id", await sign({ ...claims, sub: "' or 1=1", sid: "x", jti: "x" }, { kid }, key)],
    [
      "with other kinds of values",
      await sign({ ...claims, sub: 7, gen: "0", sid: {} } as unknown as JWTPayload, { kid }, key),
    ],
    ["empty", ""],
    ["three dots", "..."],
    ["no token", "é"],
    ...(await Promise.all(without)),
  ];
}

beforeAll(async () => {
  made = await makeTokens();
});

test.each(Object.keys(entries))("Token kinds: %s accepts its own kind and refuses every other", async (name) => {
  const entry = entries[name];
  if (!entry) throw new Error(name);
  for (const kind of kinds) {
    if (entry.takes.includes(kind)) continue;
    expect([kind, await entry.send(made.tokens[kind])]).toEqual([kind, entry.refused]);
  }
});

test.each(signed)("Token kinds: an almost valid token of kind %s is refused at its own entry", async (kind) => {
  const entry = Object.values(entries).find(({ takes }) => takes.includes(kind));
  if (!entry) throw new Error(kind);
  for (const [what, token] of await forgeries(made.tokens[kind])) {
    const status = await entry.send(token).catch(() => "not sendable");
    const expected = token === "" && kind === "mfaToken" ? 400 : entry.refused;
    expect([what, status]).toEqual([what, what === "no token" && status === "not sendable" ? status : expected]);
  }
});

test("Token kinds: the valid tokens still work afterwards, each at its own entry", async () => {
  const order = ["access", "mfaToken", "refresh", "verification", "reset"] as const;
  for (const kind of order) {
    const entry = Object.values(entries).find(({ takes }) => takes.includes(kind));
    expect([kind, await entry?.send(made.tokens[kind])]).toEqual([kind, 200]);
  }
});
