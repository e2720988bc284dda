import {
  createHmac,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  sign as signBytes,
} from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { decodeJwt, decodeProtectedHeader, type JWTPayload, SignJWT } from "jose";
import { beforeAll, expect, test } from "vitest";
import { createCipher } from "../../../services/crypto/cipher.ts";
import { testApp } from "../../support/app.ts";
import type { HttpResponse } from "../../support/http/client.ts";
import { invalid, refusal } from "../../support/http/responses.ts";

const app = await testApp();
const kinds = ["access", "refresh", "mfaToken", "verification", "reset", "change"] as const;
type Kind = (typeof kinds)[number];
const signed = ["access", "refresh", "mfaToken"] as const;
const CLEARED = /^refreshToken=; Max-Age=0; Path=\/auth/;
const oneTime = ["verification", "reset"] as const;

const verifyMfa = async (tempToken: string) =>
  app.verifyMfa(tempToken, { code: await made.code() });
/**
 * The places that accept tokens, the accepted kinds, and the status of a refusal. The code beside
 * an MFA token is correct.
 */
type Entry = { takes: Kind[]; refused: number; send: (token: string) => Promise<HttpResponse> };
const entries: Record<string, Entry> = {
  "Authorization: Bearer": {
    takes: ["access"],
    refused: 401,
    send: (t) => app.httpClient().get("/user/profile", t),
  },
  "POST /auth/refresh": { takes: ["refresh"], refused: 401, send: (token) => app.refresh(token) },
  "POST /auth/verify-mfa": { takes: ["mfaToken"], refused: 401, send: verifyMfa },
  "POST /auth/verify-email": {
    takes: ["verification", "change"],
    refused: 400,
    send: app.verifyEmail,
  },
  "POST /auth/reset-password": {
    takes: ["reset"],
    refused: 400,
    send: (token) => app.resetPassword(token),
  },
};
/**
 * Sends a token to the entry of a kind.
 * @returns the response and the status of a refusal there
 */
async function sendAs(kind: Kind, token: string) {
  const entry = Object.values(entries).find(({ takes }) => takes.includes(kind)) as Entry;
  return { ...(await entry.send(token)), refused: entry.refused };
}

let made: { tokens: Record<Kind, string>; code: () => Promise<string> };

/** One good token of every kind, of one user. */
async function makeTokens(): Promise<typeof made> {
  const { user, post, accessToken, refreshToken, authenticator } = await app.setUpFactor();
  const { token: verification = "" } = await app.mail.emailTo(user.email, /Verify/);
  const newEmail = `new-${user.email}`;
  await post("/user/change-email", { newEmail, password: user.password });
  const { token: change = "" } = await app.mail.emailTo(newEmail);
  const reset = await app.resetTokenFor(user.email);
  const mfaToken = await app.mfaTokenFor(user);
  const tokens = {
    access: accessToken,
    refresh: refreshToken,
    mfaToken,
    verification,
    reset,
    change,
  };
  return { tokens, code: () => authenticator.code() };
}

/** The signing key of the product, for forged claims. */
async function signer(): Promise<{ kid: string; key: KeyObject; publicKey: string }> {
  const [row] = await app.sql<{ kid: string; public_key: string; private_key: string }>(
    "select * from signing_keys",
  );
  if (!row) throw new Error("no signing key");
  const secret = Buffer.from(
    readFileSync(join(app.settings.DATA_DIR as string, "secret-key"), "utf8"),
    "base64",
  );
  const jwk = JSON.parse(createCipher(secret).decrypt(row.private_key, row.kid));
  return {
    kid: row.kid,
    key: createPrivateKey({ key: jwk, format: "jwk" }),
    publicKey: row.public_key,
  };
}

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const byHand = (header: object, claims: JWTPayload, signatureOf: (text: Buffer) => Buffer) => {
  const text = `${part(header)}.${part(claims)}`;
  return `${text}.${signatureOf(Buffer.from(text)).toString("base64url")}`;
};
const hs256 = (header: object, claims: JWTPayload, key: string | Buffer) =>
  byHand({ alg: "HS256", ...header }, claims, (text) =>
    createHmac("sha256", key).update(text).digest(),
  );
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
  const asJwk = JSON.stringify({ kty: "OKP", crv: "Ed25519", x: publicKey });
  const now = Math.floor(app.clock.now().getTime() / 1000);
  const unknown = "01890000-0000-7000-8000-000000000000";
  const others = { sub: 7, gen: "0", sid: {} } as unknown as JWTPayload;
  const critical = { alg: "EdDSA", kid, crit: ["exp"], exp: 1 };
  const jwk = foreign.publicKey.export({ format: "jwk" });
  const [jku, x5u] = ["https://evil.test/jwks.json", "https://evil.test/chain.pem"];
  const without = Object.keys(claims)
    .filter((name) => !["email", "role", "amr", "auth_time"].includes(name)) // informative: the product does not use them
    .map(async (name): Promise<[string, string]> => {
      const { [name]: _, ...rest } = claims;
      return [`without ${name}`, await sign(rest, { kid }, key)];
    });
  return [
    ["truncated", token.slice(0, -3)],
    ["without signature", `${head}.${body}.`],
    ["with another signature", `${head}.${body}.${signature.split("").reverse().join("")}`],
    ["with altered claims", `${head}.${part({ ...claims, sub: unknown })}.${signature}`],
    ["alg none", `${part({ ...header, alg: "none" })}.${body}.`],
    ["alg None", `${part({ ...header, alg: "None" })}.${body}.`],
    ["HS256 with the public key's bytes", hs256({ kid }, claims, raw)],
    ["HS256 with the public key's text", hs256({ kid }, claims, publicKey)],
    ["HS256 with the public key as JWK", hs256({ kid }, claims, asJwk)],
    ["unknown kid", await sign(claims, { kid: "unknown" }, foreign.privateKey)],
    ["known kid, foreign key", await sign(claims, { kid }, foreign.privateKey)],
    ["key in the header", await sign(claims, { kid, jwk }, foreign.privateKey)],
    [
      "address of keys in the header",
      await sign(claims, { kid: "their", jku }, foreign.privateKey),
    ],
    [
      "address of a certificate in the header",
      await sign(claims, { kid, x5u }, foreign.privateKey),
    ],
    ["no kid", await sign(claims, {}, key)],
    ["a critical extension", byHand(critical, claims, (text) => signBytes(null, text, key))],
    ["expired", await sign({ ...claims, exp: now - 1 }, { kid }, key)],
    ["of another issuer", await sign({ ...claims, iss: "http://evil.test" }, { kid }, key)],
    ["for another audience", await sign({ ...claims, aud: "other" }, { kid }, key)],
    ["of another type", await sign({ ...claims, type: "other" }, { kid }, key)],
    ["not yet valid", await sign({ ...claims, nbf: now + 600 }, { kid }, key)],
    ["for an unknown user", await sign({ ...claims, sub: unknown }, { kid }, key)],
    [
      "for a malformed id",
      await sign({ ...claims, sub: "' or 1=1", sid: "x", jti: "x" }, { kid }, key),
    ],
    ["with other kinds of values", await sign({ ...claims, ...others }, { kid }, key)],
    ["empty", ""],
    ["three dots", "..."],
    ["no token", "é"],
    ...(await Promise.all(without)),
  ];
}

beforeAll(async () => {
  made = await makeTokens();
});

test.each(Object.entries(entries))(
  "Token kinds: %s accepts only its own kind",
  async (_, entry) => {
    for (const kind of kinds.filter((each) => !entry.takes.includes(each)))
      expect([kind, (await entry.send(made.tokens[kind])).status]).toEqual([kind, entry.refused]);
  },
);

test.each(signed)(
  "Token kinds: an almost valid token of kind %s is refused where it belongs",
  async (kind) => {
    for (const [what, token] of await forgeries(made.tokens[kind])) {
      const answer = await sendAs(kind, token).catch(() => undefined);
      if (what === "no token" && !answer) continue; // not sendable
      const isMalformed = kind === "mfaToken" && !/^[\w.-]+$/.test(token);
      expect([what, answer?.status]).toEqual([what, isMalformed ? 400 : answer?.refused]);
      expect(answer?.headers.get("set-cookie") ?? "", what).toMatch(
        kind === "refresh" ? CLEARED : /^$/,
      );
    }
  },
);

test.each(oneTime)(
  "Token kinds: an altered token of kind %s is refused where it belongs",
  async (kind) => {
    const token = made.tokens[kind];
    const altered = token.replace(/.(?=.{20}$)/, (c) => (c === "A" ? "B" : "A"));
    const madeUp = ["A", "x", "_"].map((c) => c.repeat(token.length)); // of the right length, without a UUID
    for (const wrong of [altered, token.slice(1), `${token}A`, ...madeUp, "x", "a".repeat(4096)])
      expect(await sendAs(kind, wrong)).toMatchObject(refusal(400, "TOKEN_INVALID"));
    for (const malformed of ["", "é"])
      expect(await sendAs(kind, malformed)).toMatchObject(invalid("token"));
  },
);

test("Token kinds: the valid tokens still work afterwards, each where it belongs", async () => {
  for (const kind of ["access", "mfaToken", "refresh", "verification", "reset"] as const)
    expect([kind, (await sendAs(kind, made.tokens[kind])).status]).toEqual([kind, 200]);
  const none = await app.refresh(undefined);
  expect(none).toMatchObject(refusal(401, "REFRESH_TOKEN_INVALID"));
  expect(none.headers.get("set-cookie")).toMatch(CLEARED);
});
