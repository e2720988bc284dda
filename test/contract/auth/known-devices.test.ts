// Known devices: what makes one, the e-mail about a new one, and the lock that strangers hold.

import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { PASSWORD, type TestUser, WRONG_PASSWORD } from "../../support/accounts.ts";
import { startSuiteApp } from "../../support/app.ts";
import { createHttpClient, type HttpClient, withToken } from "../../support/http/client.ts";
import { refusal, TEXT, TIME } from "../../support/http/responses.ts";
import { tallyGuesses, times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const app = await startSuiteApp({ env: { RATE_LIMITS: "off", LOCKOUT_KNOWN_DEVICES: "exempt" } });

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/** Signs in on a browser. */
const signInOn = (browser: HttpClient, { email }: Pick<TestUser, "email">, agent = "node") =>
  browser.send("POST", "/auth/login", { email, password: PASSWORD }, { "user-agent": agent });

/** Signs in, among so many at once that some are sent away: ten wait for an account. */
const signInAtLast = (browser: HttpClient, user: TestUser) =>
  until("the sign-in", async () => (await signInOn(browser, user)).status === 200);

/** The number of e-mails about new devices to a user. */
const noticesTo = async ({ id }: TestUser) =>
  (await app.sql("select id from emails where user_id = ? and template = 'new-device'", [id]))
    .length;

const devicesOf = ({ id }: TestUser) =>
  app.sql<{ id: string }>("select id from devices where user_id = ?", [id]);

describe("The e-mail about a new device", () => {
  test("is sent once for a new browser, and never for one that has signed in before", async () => {
    const user = await app.addVerifiedUser();
    const [first, second] = [app.httpClient(), app.httpClient()];
    await signInOn(first, user);
    await signInOn(first, user);
    expect(await noticesTo(user)).toBe(0);
    for (const browser of [second, second, first]) await signInOn(browser, user, FIREFOX);
    expect(await noticesTo(user)).toBe(1);
    const mail = await app.mail.emailTo(user.email, /New sign-in/);
    expect(mail.text).toContain("Firefox on Linux");
    expect(mail.text).toContain(second.address);
    expect(mail.link).toBe(`http://gatehouse.test/not-me#token=${mail.token}`);
  });

  test("is sent once for twenty concurrent sign-ins of a new browser", async () => {
    const user = await app.addVerifiedUser();
    await signInOn(app.httpClient(), user);
    const browser = app.httpClient();
    await Promise.all(times(20, () => signInAtLast(browser, user)));
    expect([await noticesTo(user), (await devicesOf(user)).length]).toEqual([1, 2]);
  });

  test("is sent once for each of twenty new browsers that sign in concurrently", async () => {
    const user = await app.addVerifiedUser();
    await signInOn(app.httpClient(), user);
    await Promise.all(times(20, (i) => signInAtLast(app.httpClient(`10.1.${i}.9`), user)));
    expect([await noticesTo(user), (await devicesOf(user)).length]).toEqual([20, 21]);
    const tokens = await app.sql("select id from one_time_tokens where user_id = ?", [user.id]);
    expect(tokens).toHaveLength(1);
  });

  test("and the session are committed together: without the e-mail there is no session and no device", async () => {
    const user = await app.addVerifiedUser();
    await signInOn(app.httpClient(), user);
    const name = `refuse_${randomBytes(4).toString("hex")}`;
    await app.sql(
      `create function ${name}() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`,
    );
    await app.sql(
      `create trigger ${name} before insert on emails for each row when (new.user_id = '${user.id}') execute function ${name}()`,
    );
    expect((await signInOn(app.httpClient(), user)).status).toBeGreaterThanOrEqual(500);
    await app.sql(`drop function ${name} cascade`);
    const sessions = await app.sql("select id from sessions where user_id = ?", [user.id]);
    expect([sessions.length, (await devicesOf(user)).length]).toEqual([1, 1]);
  });

  test("is sent once for an app without cookies in the same network, and again for another app", async () => {
    const user = await app.addVerifiedUser();
    const appAt = (address: string) => createHttpClient(app.url, address);
    await signInOn(appAt("10.7.7.1"), user);
    await signInOn(appAt("10.7.7.200"), user);
    expect(await noticesTo(user)).toBe(0);
    await signInOn(appAt("10.7.7.1"), user, FIREFOX);
    await signInOn(appAt("10.7.8.1"), user);
    expect(await noticesTo(user)).toBe(2);
  });

  test("is sent after a second factor, and not after the password alone", async () => {
    const { user, authenticator } = await app.setUpFactor(await app.addVerifiedUser());
    const browser = app.httpClient();
    const { body } = await signInOn(browser, user);
    expect(await noticesTo(user)).toBe(0);
    const code = await authenticator.code();
    await browser.post("/auth/verify-mfa", { tempToken: body.tempToken, code });
    expect(await noticesTo(user)).toBe(1);
  });

  test("is sent at most five times an hour to an unverified address", async () => {
    const user = await app.addUser();
    for (let i = 0; i < 8; i++) await signInOn(app.httpClient(`10.2.${i}.1`), user);
    expect(await noticesTo(user)).toBe(5);
    const mail = await app.mail.emailTo(user.email, /New sign-in/);
    expect(mail.text).not.toMatch(/10\.2\.|Ann/);
  });

  test("is not sent for the first sign-in after an upgrade", async () => {
    const { user } = await app.signIn(await app.addVerifiedUser());
    await app.sql("update sessions set device_id = null where user_id = ?", [user.id]);
    await app.sql("delete from devices where user_id = ?", [user.id]);
    await signInOn(app.httpClient(), user);
    expect(await noticesTo(user)).toBe(0);
  });
});

describe("Devices", () => {
  test("GET /user/devices: lists devices, the last used first, and marks the current one", async () => {
    const { user, browser, get } = await app.signIn(await app.addVerifiedUser());
    const other = app.httpClient();
    await signInOn(other, user, FIREFOX);
    const shape = { id: TEXT, createdAt: TIME, lastUsedAt: TIME };
    const { status, body } = await get("/user/devices");
    expect([status, body]).toEqual([
      200,
      [
        { ...shape, label: "Firefox on Linux", ip: other.address, current: false },
        { ...shape, label: TEXT, ip: browser.address, current: true },
      ],
    ]);
    const { devices } = await app
      .grpc(UserService)
      .listDevices({}, { headers: withToken(browser, await tokenOn(browser, user)).headers });
    expect(devices.map(({ label }) => label).sort()).toEqual(["Firefox on Linux", "node"]);
    expect((await app.httpClient().get("/user/devices")).status).toBe(401);
  });

  test("DELETE /user/devices/:id: removes a device of the caller, which is new the next time", async () => {
    const { user, browser, get, ...account } = await app.signIn(await app.addVerifiedUser());
    const other = app.httpClient();
    await signInOn(other, user);
    const [, { id }] = (await get("/user/devices")).body;
    const stranger = await app.signIn();
    expect(await stranger.delete(`/user/devices/${id}`)).toMatchObject(refusal(404, "NOT_FOUND"));
    expect((await account.delete(`/user/devices/${id.toUpperCase()}`)).status).toBe(200);
    expect((await account.delete(`/user/devices/${id}`)).status).toBe(404);
    expect((await get("/user/devices")).body).toHaveLength(1);
    expect(await account.profileStatus()).toBe(200);
    await signInOn(browser, user);
    expect(await noticesTo(user)).toBe(2);
    const [event] = await app.auditOf(user.id, "user.device_forgotten");
    expect(event).toMatchObject({ actor_id: user.id, details: { deviceId: id } });
  });

  test("are limited to fifty: those unused for longest are removed", async () => {
    const user = await app.addVerifiedUser();
    const first = app.httpClient();
    await signInOn(first, user);
    for (let i = 0; i < 52; i++) await signInOn(app.httpClient(`10.3.${i}.1`), user);
    expect(await devicesOf(user)).toHaveLength(50);
    const before = await noticesTo(user);
    await signInOn(first, user);
    expect(await noticesTo(user)).toBe(before + 1);
  });

  test("are in the export, and are deleted with the account", async () => {
    const { user, get } = await app.signIn();
    const { devices } = (await get("/user/export")).body;
    expect(devices).toEqual([
      { id: TEXT, label: TEXT, ip: TEXT, createdAt: TIME, lastUsedAt: TIME },
    ]);
    const admin = await app.signInAdmin();
    await admin.delete(`/admin/users/${user.id}`);
    expect(await devicesOf(user)).toEqual([]);
  });

  test("keep their id when the browser signs in to another account", async () => {
    const [one, two] = [await app.addVerifiedUser(), await app.addVerifiedUser()];
    const browser = app.httpClient();
    await signInOn(browser, one);
    const before = browser.cookies.get("device");
    await signInOn(browser, two);
    expect(browser.cookies.get("device")).toBe(before);
    const ids = [await devicesOf(one), await devicesOf(two)].flat().map(({ id }) => id);
    expect(new Set(ids).size).toBe(1);
  });
});

describe("While strangers lock the account, LOCKOUT_KNOWN_DEVICES=exempt", () => {
  /** An account with two known devices, which strangers have locked. */
  async function lockedAccount() {
    const user = await app.addVerifiedUser();
    const [browser, other] = [app.httpClient(), app.httpClient()];
    await signInOn(browser, user);
    await signInOn(other, user, FIREFOX);
    await app.lock(user.email);
    return { user, browser, other };
  }
  const guessOn = (browser: HttpClient, { email }: TestUser) =>
    browser.post("/auth/login", { email, password: WRONG_PASSWORD });
  const withCookie = ({ email }: TestUser, cookie: string) =>
    app.httpClient().send("POST", "/auth/login", { email, password: PASSWORD }, { cookie });

  test("admits a known device, over gRPC too, and nobody else; the lock stays", async () => {
    const { user, browser } = await lockedAccount();
    expect((await signInOn(browser, user)).status).toBe(200);
    const deviceToken = browser.cookies.get("device") as string;
    const { login } = app.grpc(AuthService);
    const { user: found } = await login({ ...user.credentials, deviceToken });
    expect(found?.id).toBe(user.id);
    await expect(login(user.credentials)).rejects.toThrow("locked");
    expect((await signInOn(app.httpClient(), user)).status).toBe(423);
    expect((await app.auditOf(user.id, "auth.login")).length).toBe(4);
  });

  test("a device that guesses five times is locked by itself", async () => {
    const { user, browser, other } = await lockedAccount();
    for (let i = 0; i < 5; i++)
      expect(await guessOn(browser, user)).toMatchObject(refusal(401, "INVALID_CREDENTIALS"));
    const locked = await signInOn(browser, user);
    expect(locked).toMatchObject(refusal(423, "ACCOUNT_LOCKED"));
    expect(Number(locked.headers.get("retry-after"))).toBeGreaterThan(800);
    expect((await signInOn(other, user)).status).toBe(200);
    const [event] = await app.auditOf(user.id, "auth.locked");
    expect(event?.details).toEqual({ device: true });
    app.clock.advance("16m");
    expect((await signInOn(browser, user)).status).toBe(200);
  });

  test("evaluates five of fifty concurrent guesses of a device", async () => {
    const { user, browser, other } = await lockedAccount();
    const answers = await Promise.all(times(50, () => guessOn(browser, user)));
    const { evaluated, refused } = tallyGuesses(answers);
    expect(evaluated + refused).toBe(50);
    expect(evaluated).toBeLessThanOrEqual(5);
    expect((await signInOn(browser, user)).status).toBe(423);
    expect((await signInOn(other, user)).status).toBe(200);
  });

  test("forged, foreign and removed cookies, and two different ones, are unknown devices", async () => {
    const { user, browser, other } = await lockedAccount();
    const token = browser.cookies.get("device") as string;
    const stranger = (await app.signIn()).browser.cookies.get("device");
    const forged = Buffer.from(token, "base64url");
    forged[31] = (forged[31] ?? 0) ^ 1;
    const { body } = await signInOn(other, user);
    const { get, ...account } = withToken(other, body.accessToken);
    for (const cookie of [`device=${token}`, `device=${token}; device=${token}`])
      expect([cookie, (await withCookie(user, cookie)).status]).toEqual([cookie, 200]);
    const unknown = [
      `device=${forged.toString("base64url")}`,
      `device=${randomBytes(32).toString("base64url")}`,
      `device=${stranger}`,
      `device=${token}; device=${stranger}`,
      "device=",
    ];
    for (const cookie of unknown)
      expect([cookie, (await withCookie(user, cookie)).status]).toEqual([cookie, 423]);
    const devices = (await get("/user/devices")).body;
    for (const { id, current } of devices)
      if (!current) await account.delete(`/user/devices/${id}`);
    expect((await withCookie(user, `device=${token}`)).status).toBe(423);
  });

  test("a device that only looks like a known one is not admitted", async () => {
    const user = await app.addVerifiedUser();
    await signInOn(createHttpClient(app.url, "10.9.9.1"), user);
    await app.lock(user.email);
    expect((await signInOn(createHttpClient(app.url, "10.9.9.1"), user)).status).toBe(423);
  });

  test("admits a known device while the lock is permanent, and a reset clears the lock of the device", async () => {
    const { user, browser } = await lockedAccount();
    await app.sql("update attempts set locked_until = '9999-12-31' where subject = ?", [
      user.email,
    ]);
    expect((await signInOn(browser, user)).status).toBe(200);
    for (let i = 0; i < 5; i++) await guessOn(browser, user);
    expect((await signInOn(browser, user)).status).toBe(423);
    await app.resetPassword(await app.resetTokenFor(user.email), PASSWORD);
    await app.lock(user.email);
    expect((await signInOn(browser, user)).status).toBe(200);
  });
});

/** Signs in on a browser and returns the access token. */
async function tokenOn(browser: HttpClient, user: TestUser): Promise<string> {
  return (await signInOn(browser, user)).body.accessToken;
}
