import { randomBytes, randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startSuiteApp } from "../support/app.ts";
import { describeIf } from "../support/suites.ts";

/** The Redis database of this suite only. */
const REDIS_DATABASE = 8;
const canary = (kind: string) => `Canary-1-${kind}-${randomBytes(9).toString("base64url")}`;

describeIf(process.env.TEST_SERVERS, "Secrets", async () => {
  const settings = {
    INTERNAL_SECRET: canary("internal"),
    SECRET_KEY: randomBytes(32).toString("base64"),
    OPENAI_API_KEY: canary("api-key"),
  };
  const redis = new Redis(process.env.TEST_REDIS_URL as string, { db: REDIS_DATABASE });
  await redis.flushdb();
  const env = { ...settings, REDIS_URL: `${process.env.TEST_REDIS_URL}/${REDIS_DATABASE}` };
  const app = await startSuiteApp({ mode: "apart", env });
  const secrets: Record<string, string> = { ...settings };
  /** Every refusal: headers and body. */
  const refused: string[] = [];

  beforeAll(() => useSecrets());
  afterAll(() => redis.flushdb().finally(() => redis.disconnect()));

  function newSecret(kind: string): string {
    secrets[kind] = canary(kind);
    return secrets[kind];
  }

  /** Sends a request, and stores its response if it is a refusal. */
  async function send(...request: Parameters<ReturnType<typeof app.httpClient>["send"]>) {
    const answer = await app.httpClient().send(...request);
    if (answer.status >= 400)
      refused.push(JSON.stringify([...answer.headers]) + JSON.stringify(answer.body));
    return answer;
  }

  /** Uses every operation with secrets of one account, and makes every kind of mistake. */
  async function useSecrets(): Promise<void> {
    const [password, newPassword] = [newSecret("password"), newSecret("new-password")];
    const email = `${randomUUID()}@example.com`;
    const credentials = { email, password };
    const { body } = await send("POST", "/auth/register", {
      ...credentials,
      name: "Ann",
      acceptTerms: true,
    });
    const user = { id: body.userId, email, name: "Ann", password, credentials };
    secrets.verification = (await app.mail.emailTo(email, /Verify/)).token as string;
    const account = await app.setUpFactor(user);
    Object.assign(secrets, { access: account.accessToken, refresh: account.refreshToken });
    secrets.totp = account.authenticator.secret;
    for (const [i, code] of account.authenticator.backupCodes.entries())
      secrets[`backup code ${i}`] = code;
    secrets.mfaToken = await app.mfaTokenFor(user);
    await send("POST", "/auth/verify-mfa", {
      tempToken: secrets.mfaToken,
      backupCode: secrets["backup code 0"],
    });
    const bearer = { authorization: `Bearer ${account.accessToken}` };
    const newEmail = `new-${email}`;
    await send("POST", "/user/change-email", { newEmail, password }, bearer);
    secrets.change = (await app.mail.emailTo(newEmail)).token as string;
    await send("POST", "/auth/forgot-password", { email });
    secrets.reset = (await app.mail.emailTo(email, /Reset/)).token as string;
    const messages = [{ role: "user", content: newSecret("message") }];
    for (const provider of ["provider-a", "unknown"])
      await send("POST", "/ai/chat", { provider, messages }, bearer);
    await send("POST", "/user/change-password", { currentPassword: password, newPassword }, bearer);
    await fail(credentials, bearer);
  }

  async function fail(
    { email, password }: { email: string; password: string },
    bearer: Record<string, string>,
  ) {
    const guess = newSecret("guess");
    for (let i = 0; i < 6; i++) await send("POST", "/auth/login", { email, password: guess });
    for (const field of ["email", "password", "name", "acceptTerms"]) {
      await send("POST", "/auth/register", {
        email,
        password,
        name: "x",
        acceptTerms: true,
        [field]: { guess },
      });
    }
    for (const text of [
      `{"password":"${guess}"`,
      `"${guess}"`,
      `{"email":"a@b.cd","password":"${guess}\\u0000"}`,
    ]) {
      await send("POST", "/auth/login", text);
    }
    await send("POST", "/auth/login", { email: guess, password: guess });
    await send("POST", "/auth/verify-email", { token: guess });
    await send("POST", "/auth/reset-password", { token: secrets.reset, password: "weak" });
    await send("POST", "/auth/reset-password", { token: guess, password });
    await send("POST", "/auth/verify-mfa", { tempToken: guess, code: guess });
    await send("POST", "/user/delete-account", { password: guess }, bearer);
    await send(
      "POST",
      "/user/change-password",
      { currentPassword: guess, newPassword: guess },
      bearer,
    );
    await send("GET", "/user/profile", undefined, { authorization: `Bearer ${guess}` });
    await send("GET", "/user/profile", undefined, { authorization: guess });
    await send("POST", "/auth/refresh", undefined, { cookie: `refreshToken=${guess}` });
    await send("DELETE", `/user/sessions/${guess}`, undefined, bearer);
    await send("GET", `/verify-email?token=${guess}`);
    await send("GET", `/${guess}`);
    await send("POST", "/auth/refresh", undefined, { cookie: `refreshToken=${secrets.refresh}` });
  }

  /**
   * Texts that reveal a secret: the secret, the signature of a token, a backup code without its
   * hyphen.
   */
  const tracesOf = (secret: string) => [
    secret,
    secret.split(".")[2] ?? secret,
    secret.replaceAll("-", ""),
  ];
  const found = (text: string) =>
    Object.entries(secrets).flatMap(([name, secret]) =>
      tracesOf(secret).some((t) => text.includes(t)) ? [name] : [],
    );

  test("are found by the search in a sample text", () => {
    expect(Object.keys(secrets).length).toBe(24);
    expect(refused.length).toBeGreaterThan(25);
    expect(found(`x ${secrets.password} y`)).toEqual(["password"]);
  });

  test("appear in no log line", () => {
    expect(app.logs.length).toBeGreaterThan(50);
    expect(found(app.logs.join("\n"))).toEqual([]);
  });

  test("appear in no error response", () => {
    expect(found(refused.join("\n"))).toEqual([]);
  });

  test("do not appear in Redis", async () => {
    const keys = await redis.keys("*");
    expect(keys.length).toBeGreaterThan(5);
    const values = await Promise.all(
      keys.map(async (key) => (await redis.dumpBuffer(key))?.toString("latin1")),
    );
    expect(found([...keys, ...values].join("\n"))).toEqual([]);
  });

  test("do not appear in a dump of the database", async () => {
    const tables = await app.sql<{ name: string }>(
      "select quote_ident(schemaname) || '.' || quote_ident(tablename) as name from pg_tables where schemaname = 'public'",
    );
    const rows = [];
    for (const { name } of tables)
      rows.push(...(await app.sql(`select to_jsonb(t)::text as row from ${name} t`)));
    expect(rows.length).toBeGreaterThan(30);
    expect(found(JSON.stringify(rows))).toEqual([]);
  });
});
