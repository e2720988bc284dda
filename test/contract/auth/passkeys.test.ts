import { randomUUID } from "node:crypto";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { decodeJwt } from "jose";
import { WebAuthnEmulator } from "nid-webauthn-emulator";
import { describe, expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { startSuiteApp, testApp } from "../../support/app.ts";
import { type Algorithm, createAuthenticator, FLAGS } from "../../support/authenticator.ts";
import { sendHttp, withToken } from "../../support/http/client.ts";
import { invalid, refusal, TEXT, TIME } from "../../support/http/responses.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { statusesOf } from "../../support/tally.ts";

const app = await testApp();
const passkeys = passkeyActions(app);
const INVALID = refusal(401, "PASSKEY_INVALID");
const UNKNOWN = refusal(401, "PASSKEY_UNKNOWN");
const ORIGIN = "http://gatehouse.test";
const FLOOD = process.env.TEST_FULL ? 10_000 : 2_000;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** The memory that this thread needs, in bytes. */
function usedHeap(): number {
  collectGarbage();
  return getHeapStatistics().used_heap_size;
}

/** Sessions, passkeys and completed ceremonies: what a refused request must not add. */
const stored = () =>
  app.sql(
    `select (select count(*)::int from sessions) as sessions, (select count(*)::int from passkeys) as passkeys,
       (select count(*)::int from completed_ceremonies) as ceremonies`,
  );

test.for<Algorithm>(["ES256", "EdDSA", "RS256"])(
  "POST /auth/verify-passkey: a passkey with %s suffices for a sign-in, and counts as two factors",
  async (algorithm) => {
    const { user, authenticator } = await passkeys.addUser(createAuthenticator(ORIGIN, algorithm));
    const { status, body, headers } = await passkeys.signIn(authenticator);
    const owner = { id: user.id, email: user.email, name: user.name, role: "user" };
    const tokens = { accessToken: TEXT, refreshToken: TEXT };
    expect({ status, body }).toEqual({
      status: 200,
      body: { ...tokens, user: owner, requiresMfa: false },
    });
    expect(headers.get("set-cookie")).toContain(`refreshToken=${body.refreshToken}`);
    expect(decodeJwt(body.accessToken).amr).toEqual(["pop", "mfa"]);
    const [session] = await withToken(app.httpClient(), body.accessToken).sessions();
    expect(session.method).toBe("passkey");
    const [event] = await app.auditOf(user.id, "auth.login");
    expect(event).toMatchObject({ details: { method: "passkey" } });
  },
);

test("Passkeys: a foreign authenticator (nid-webauthn-emulator) registers and signs in with our options", async () => {
  const emulator = new WebAuthnEmulator();
  const account = await app.signIn();
  const creation = await passkeys.optionsFor(account, "register");
  const credential = emulator.createJSON(ORIGIN, creation);
  expect((await account.post("/user/passkeys", { credential })).status).toBe(201);
  const use = emulator.getJSON(ORIGIN, await passkeys.signInOptions());
  expect((await passkeys.verify(use)).status).toBe(200);
});

test("AuthService, UserService: register, list and sign in over gRPC by the same rules", async () => {
  const [auth, user] = [app.grpc(AuthService), app.grpc(UserService)];
  const { headers } = await app.signIn();
  const authenticator = createAuthenticator();
  const toMessage = <T extends { response: { clientDataJSON: string } }>(credential: T) => {
    const { clientDataJSON: clientDataJson, ...response } = credential.response;
    return { ...credential, response: { clientDataJson, ...response } };
  };
  const purpose = "register";
  const { options: creation } = await user.createPasskeyOptions({ purpose }, { headers });
  const credential = toMessage(authenticator.create(creation as never));
  const { passkey } = await user.createPasskey({ credential, name: "Mine" }, { headers });
  expect(passkey?.name).toBe("Mine");
  expect((await user.listPasskeys({}, { headers })).passkeys).toHaveLength(1);
  const { options } = await auth.startPasskey({});
  const use = { credential: toMessage(authenticator.get(options as never)) };
  expect((await auth.verifyPasskey(use)).accessToken).toMatch(/^ey/);
  await expect(auth.verifyPasskey(use)).rejects.toThrow("not accepted");
  await expect(auth.verifyPasskey({})).rejects.toThrow("credential");
});

test("GET, PUT, DELETE /user/passkeys: list and rename the caller's passkeys, and nobody else's", async () => {
  const { user, get, put, passkey } = await passkeys.addUser(
    createAuthenticator(ORIGIN, "ES256", { backedUp: true }),
  );
  const shape = { id: TEXT, name: "node", createdAt: TIME, synced: true, device: "platform" };
  expect((await get("/user/passkeys")).body).toEqual([shape]);
  const renamed = await put(`/user/passkeys/${passkey.id}`, { name: " Laptop " });
  expect(renamed.body.passkey).toEqual({ ...shape, name: "Laptop" });
  for (const name of ["", " ", "x".repeat(65)])
    expect((await put(`/user/passkeys/${passkey.id}`, { name })).status).toBe(400);
  const stranger = await app.signIn();
  const foreign = await stranger.put(`/user/passkeys/${passkey.id}`, { name: "Mine" });
  expect(foreign).toMatchObject(refusal(404, "NOT_FOUND"));
  const removal = await stranger.delete(`/user/passkeys/${passkey.id}`);
  expect(removal).toMatchObject(refusal(404, "NOT_FOUND"));
  expect((await app.mail.emailTo(user.email, /passkey was added/)).text).toContain("node");
});

test("POST /user/passkeys/options: requires a recent sign-in to add a passkey, but not to confirm", async () => {
  const { browser } = await app.signIn();
  app.clock.advance("20m");
  const { accessToken } = (await browser.post("/auth/refresh")).body;
  const { post } = withToken(browser, accessToken);
  const ask = (purpose: string) => post("/user/passkeys/options", { purpose });
  expect(await ask("register")).toMatchObject(refusal(403, "REAUTHENTICATION_REQUIRED"));
  expect((await ask("confirm")).status).toBe(200);
  expect(await ask("other")).toMatchObject(invalid("purpose"));
});

test("POST /user/passkeys/options: excludes the passkeys that the user has", async () => {
  const account = await passkeys.addUser();
  const { excludeCredentials, user } = await passkeys.optionsFor(account, "register");
  expect(excludeCredentials.map(({ id }: { id: string }) => id)).toEqual([
    account.authenticator.id,
  ]);
  expect(Buffer.from(user.id, "base64url")).toHaveLength(16);
});

test("POST /user/passkeys: a credential id exists once, even if two users register it concurrently", async () => {
  const authenticator = createAuthenticator();
  const accounts = [await app.signIn(), await app.signIn()];
  const bodies = await Promise.all(
    accounts.map(async (account) => {
      const options = await passkeys.optionsFor(account, "register");
      return { account, credential: authenticator.create(options) };
    }),
  );
  const answers = await Promise.all(
    bodies.map(({ account, credential }) => account.post("/user/passkeys", { credential })),
  );
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 409]);
});

test("POST /user/passkeys: an account has at most 20, however many requests are concurrent", async () => {
  const account = await passkeys.addUser();
  await app.sql(
    `insert into passkeys select gen_random_uuid(), user_id, decode(md5(n::text || user_id), 'hex'), public_key, algorithm,
       sign_count, transports, backup_eligible, backed_up, aaguid, rp_id, name, created_at, null
     from passkeys, generate_series(1, 17) n where user_id = ?`,
    [account.user.id],
  );
  expect(await statusesOf(5, () => passkeys.register(account))).toEqual({ 201: 2, 409: 3 });
});

describe("Attacks on passkeys", () => {
  test("a challenge signs in once, sequentially and for 50 concurrent requests", async () => {
    const { user, authenticator } = await passkeys.addUser();
    const credential = authenticator.get(await passkeys.signInOptions());
    const before = await app.sql("select id from sessions where user_id = ?", [user.id]);
    const statuses = await statusesOf(50, () => passkeys.verify(credential));
    expect(statuses).toEqual({ 200: 1, 401: 49 });
    expect(await passkeys.verify(credential)).toMatchObject(INVALID);
    const after = await app.sql("select id from sessions where user_id = ?", [user.id]);
    expect(after.length).toBe(before.length + 1);
  });

  test("a challenge of another purpose, session or age, or an invented one, is rejected", async () => {
    const account = await passkeys.addUser();
    const { authenticator, post } = account;
    const other = await passkeys.addUser();
    const challenges = [
      (await passkeys.optionsFor(account, "register")).challenge,
      (await passkeys.optionsFor(account, "confirm")).challenge,
      "A".repeat(43),
      "",
      (await passkeys.signInOptions()).challenge.replace(/^./, (c: string) =>
        c === "A" ? "B" : "A",
      ),
      ...[7, false, [], { toString: "A" }].map((other) => other as never),
    ];
    for (const challenge of challenges)
      expect(await passkeys.signIn(authenticator, { challenge })).toMatchObject(INVALID);
    const ofOther = (await passkeys.optionsFor(other, "confirm")).challenge;
    const confirmation = authenticator.get(await passkeys.optionsFor(account, "confirm"), {
      challenge: ofOther,
    });
    expect(await post("/auth/confirm", { passkey: confirmation })).toMatchObject(INVALID);
    const elsewhere = await app.signIn(account.user);
    const made = createAuthenticator().create(await passkeys.optionsFor(account, "register"));
    expect(await elsewhere.post("/user/passkeys", { credential: made })).toMatchObject(INVALID);
    expect((await account.post("/user/passkeys", { credential: made })).status).toBe(201);
    const late = await passkeys.signInOptions();
    app.clock.advance("5m");
    expect(await passkeys.verify(authenticator.get(late))).toMatchObject(INVALID);
  });

  const { UP, UV, BE, BS } = FLAGS;
  const FAULTS = [
    { what: "another origin", faults: { origin: "https://evil.example" } },
    { what: "an origin with a suffix", faults: { origin: `${ORIGIN}.evil.example` } },
    { what: "another port", faults: { origin: `${ORIGIN}:8080` } },
    { what: "another scheme", faults: { origin: "https://gatehouse.test" } },
    {
      what: "an Android app that is not listed",
      faults: { origin: `android:apk-key-hash:${"A".repeat(43)}` },
    },
    { what: "a frame of another origin", faults: { crossOrigin: true } },
    { what: "a text about its frame", faults: { crossOrigin: "true" as never } },
    { what: "another RP id", faults: { rpId: "evil.example" } },
    { what: "no user verification", faults: { flags: UP } },
    { what: "no user presence", faults: { flags: UV } },
    { what: "a backup of a passkey that can't be backed up", faults: { flags: UP | UV | BS } },
    { what: "another type", faults: { type: "webauthn.payment" } },
  ];
  test.for(FAULTS)("a sign-in with $what is 401, and nothing is stored", async ({ faults }) => {
    const { authenticator } = await passkeys.addUser();
    const before = await stored();
    expect(await passkeys.signIn(authenticator, faults)).toMatchObject(INVALID);
    expect(await stored()).toEqual(before);
  });

  test.for(FAULTS)("a new passkey with $what is 401, and nothing is stored", async ({ faults }) => {
    const account = await app.signIn();
    const before = await stored();
    const answer = await passkeys.register(account, createAuthenticator(), faults);
    expect(answer).toMatchObject(INVALID);
    expect(await stored()).toEqual(before);
  });

  test("a new passkey with an algorithm that was not offered is 401, and nothing is stored", async () => {
    const account = await app.signIn();
    const before = await stored();
    const authenticator = createAuthenticator(ORIGIN, "ES384");
    expect(await passkeys.register(account, authenticator)).toMatchObject(INVALID);
    expect(await stored()).toEqual(before);
  });

  /** Changes of an attestation in hexadecimal. */
  const ATTESTATIONS: { what: string; change: (hex: string) => string }[] = [
    { what: "a key of another type", change: (hex) => hex.replace("a5010203", "a5010303") },
    {
      what: "a key for EdDSA that is none",
      change: (hex) => hex.replace("a501020326", "a501020327"),
    },
    {
      what: "a curve that is not its own",
      change: (hex) => hex.replace("032620012158", "032620022158"),
    },
    {
      what: "a point that is not on the curve",
      change: (hex) => hex.replace(/(?<=225820)./, (digit) => (digit === "0" ? "1" : "0")),
    },
    { what: "a text as its statement", change: (hex) => hex.replace("53746d74a0", "53746d746178") },
  ];
  test.for(ATTESTATIONS)(
    "a new passkey with $what is 401, and nothing is stored: it would count as a way in",
    async ({ change }) => {
      const account = await app.signIn();
      const made = createAuthenticator().create(await passkeys.optionsFor(account, "register"));
      const hex = Buffer.from(made.response.attestationObject, "base64url").toString("hex");
      expect(change(hex)).not.toBe(hex);
      const attestationObject = Buffer.from(change(hex), "hex").toString("base64url");
      const credential = { ...made, response: { ...made.response, attestationObject } };
      const before = await stored();
      expect(await account.post("/user/passkeys", { credential })).toMatchObject(INVALID);
      expect(await stored()).toEqual(before);
    },
  );

  test("a credential id of more than 1,023 bytes is 401, and nothing is stored", async () => {
    const account = await app.signIn();
    const before = await stored();
    const register = async (idBytes: number) => {
      const authenticator = createAuthenticator(ORIGIN, "ES256", { idBytes });
      const made = authenticator.create(await passkeys.optionsFor(account, "register"));
      const named = { ...made, id: made.id.slice(0, 1_364), rawId: made.rawId.slice(0, 1_364) };
      return account.post("/user/passkeys", { credential: named });
    };
    for (const idBytes of [1_024, 3_000, 8_000])
      expect(await register(idBytes)).toMatchObject(INVALID);
    expect(await stored()).toEqual(before);
    expect((await register(1_023)).status).toBe(201);
  });

  test("another key, a foreign or missing user handle, and the type of a registration are rejected", async () => {
    const { authenticator } = await passkeys.addUser();
    const { privateKey: key } = createAuthenticator();
    const foreign = await app.addUser();
    const userHandle = Buffer.from(foreign.id.replaceAll("-", ""), "hex").toString("base64url");
    for (const faults of [
      { key },
      { userHandle },
      { userHandle: undefined },
      { type: "webauthn.create" },
    ])
      expect(await passkeys.signIn(authenticator, faults)).toMatchObject(INVALID);
  });

  test("a passkey that was bound to its device and now may be synced, or the reverse, is 401, and nothing is stored", async () => {
    const bound = await passkeys.addUser();
    const synced = await passkeys.addUser(createAuthenticator(ORIGIN, "ES256", { backedUp: true }));
    const before = await stored();
    for (const flags of [UP | UV | BE, UP | UV | BE | BS])
      expect(await passkeys.signIn(bound.authenticator, { flags })).toMatchObject(INVALID);
    expect(await passkeys.signIn(synced.authenticator, { flags: UP | UV })).toMatchObject(INVALID);
    expect(await stored()).toEqual(before);
    const { status } = await passkeys.signIn(synced.authenticator, { flags: UP | UV | BE });
    expect(status).toBe(200);
    expect((await synced.get("/user/passkeys")).body[0].synced).toBe(false); // no longer
  });

  test("an unknown passkey has its own error code, so that browsers can forget it", async () => {
    expect(await passkeys.signIn(createAuthenticator())).toMatchObject(UNKNOWN);
  });

  test("truncated CBOR, garbage, overlong values and invalid base64url are 401 or 400", async () => {
    const account = await app.signIn();
    const options = await passkeys.optionsFor(account, "register");
    const made = createAuthenticator().create(options);
    const { attestationObject } = made.response;
    for (const each of [attestationObject.slice(0, 120), "A".repeat(9_000), "_", ""]) {
      const response = { ...made.response, attestationObject: each };
      const credential = { ...made, response };
      expect(await account.post("/user/passkeys", { credential })).toMatchObject(INVALID);
    }
    for (const each of ["%", "A".repeat(12_289)]) {
      const credential = { ...made, response: { ...made.response, attestationObject: each } };
      const answer = await account.post("/user/passkeys", { credential });
      expect(answer).toMatchObject(invalid("credential.response.attestationObject"));
    }
    expect(await account.post("/user/passkeys", {})).toMatchObject(invalid("credential"));
    for (const clientDataJSON of ["e30", "bnVsbA", "W10", "IiI", "AAAA"]) {
      const credential = { ...made, response: { ...made.response, clientDataJSON } };
      expect(await account.post("/user/passkeys", { credential })).toMatchObject(INVALID);
    }
  });

  test("a passkey that is removed during a sign-in opens no session", async () => {
    const { authenticator, passkey, delete: remove } = await passkeys.addUser();
    const use = authenticator.get(await passkeys.signInOptions());
    const removal = remove(`/user/passkeys/${passkey.id}`);
    const [removed, used] = await Promise.all([removal, passkeys.verify(use)]);
    expect(removed.status).toBe(200);
    expect([200, 401]).toContain(used.status);
    expect(await passkeys.signIn(authenticator)).toMatchObject(UNKNOWN);
  });

  test("a decreasing counter signs in, is recorded, and is reported by e-mail once a day", async () => {
    const { user, authenticator } = await passkeys.addUser();
    await passkeys.signIn(authenticator, { counter: 7 });
    for (let i = 0; i < 2; i++)
      expect((await passkeys.signIn(authenticator, { counter: 3 - i })).status).toBe(200);
    const events = await app.auditOf(user.id, "auth.passkey_counter_fell");
    expect(events.map(({ details }) => [details.from, details.to])).toEqual([
      [3, 2],
      [7, 3],
    ]);
    const mails = "select 1 from emails where user_id = ? and template = 'passkey-counter'";
    expect(await app.sql(mails, [user.id])).toHaveLength(1);
  });

  test("a lock of the password does not affect the passkey", async () => {
    const { user, authenticator } = await passkeys.addUser();
    await app.lock(user.email);
    expect((await app.login(user.email)).status).toBe(423);
    expect((await passkeys.signIn(authenticator)).status).toBe(200);
  });

  test(`${FLOOD} options requests from one address are limited, store nothing and do not increase memory`, async () => {
    const before = await stored();
    const { address } = app.httpClient();
    const from = { "x-forwarded-for": address };
    const ask = () => sendHttp(app.url, "POST", "/auth/passkey-options", {}, from);
    const statuses: Record<string, number> = {};
    const send = async (count: number) => {
      for (let sent = 0; sent < count; sent += 50)
        for (const [status, n] of Object.entries(await statusesOf(50, ask)))
          statuses[status] = (statuses[status] ?? 0) + n;
      app.logs.length = 0; // the lines of this test
      return usedHeap();
    };
    const warm = await send(FLOOD / 4); // compiled code and caches grow first
    const growth = (await send((FLOOD * 3) / 4)) - warm;
    expect(Object.keys(statuses)).toEqual(["200", "429"]);
    expect(statuses[200]).toBeLessThanOrEqual(120 * 3); // the flood takes a while, and a window is a minute
    expect(await stored()).toEqual(before);
    expect(growth / FLOOD).toBeLessThan(150); // bytes; a stored challenge takes more
  });
});

describe("Passkey as second factor", () => {
  test("login lists the passkey, which completes it once", async () => {
    const { user, authenticator } = await passkeys.addUser();
    await app.setUpFactor(user);
    const { body: login } = await app.login(user.email);
    expect(login.mfaMethods).toEqual(["passkey", "totp", "backup-code"]);
    const { tempToken } = login;
    const options = await passkeys.signInOptions(tempToken);
    expect(options.allowCredentials.map(({ id }: { id: string }) => id)).toEqual([
      authenticator.id,
    ]);
    const use = authenticator.get(options);
    const statuses = await statusesOf(20, () => passkeys.verify(use, tempToken));
    expect(statuses).toEqual({ 200: 1, 401: 19 });
    const [event] = await app.auditOf(user.id, "auth.mfa_verified");
    expect(event).toMatchObject({ details: { method: "passkey" } });
    const again = authenticator.get(await passkeys.signInOptions(tempToken));
    expect(await passkeys.verify(again, tempToken)).toMatchObject(refusal(401, "TICKET_INVALID"));
  });

  test("neither a passkey of another user nor an assertion for another MFA token completes it", async () => {
    const [victim, attacker] = [await passkeys.addUser(), await passkeys.addUser()];
    await app.setUpFactor(victim.user);
    const tempToken = await app.mfaTokenFor(victim.user);
    const options = await passkeys.signInOptions(tempToken);
    expect(await passkeys.verify(attacker.authenticator.get(options), tempToken)).toMatchObject(
      INVALID,
    );
    const next = await app.mfaTokenFor(victim.user);
    const use = victim.authenticator.get(options);
    expect(await passkeys.verify(use, next)).toMatchObject(INVALID);
    expect(await passkeys.verify(use)).toMatchObject(INVALID);
    expect(
      (await passkeys.verify(victim.authenticator.get(await passkeys.signInOptions(next)), next))
        .status,
    ).toBe(200);
    expect(
      await app.httpClient().post("/auth/passkey-options", { tempToken: "a.b.c" }),
    ).toMatchObject(refusal(401, "TICKET_INVALID"));
  });

  test("without passkeys login is unchanged", async () => {
    const { user } = await app.setUpFactor();
    expect(Object.keys((await app.login(user.email)).body)).toEqual(["requiresMfa", "tempToken"]);
  });

  test("PUT /user/second-factor: accepts a passkey alone, which then cannot be removed", async () => {
    const { user, put, authenticator, passkey, delete: remove } = await passkeys.addUser();
    const { body } = await put("/user/second-factor", { required: true });
    expect(body.backupCodes).toHaveLength(10);
    const login = await app.login(user.email);
    expect(login.body).toMatchObject({ requiresMfa: true, mfaMethods: ["passkey", "backup-code"] });
    const tempToken = login.body.tempToken;
    const use = authenticator.get(await passkeys.signInOptions(tempToken));
    expect((await passkeys.verify(use, tempToken)).status).toBe(200);
    expect((await app.signInBy(user, { backupCode: body.backupCodes[0] })).status).toBe(200);
    const refused = await remove(`/user/passkeys/${passkey.id}`);
    expect(refused).toMatchObject(refusal(409, "LAST_SIGN_IN_METHOD"));
    expect((await passkeys.signIn(authenticator)).status).toBe(200);
  });

  test("a password reset keeps a required second factor", async () => {
    const user = await app.addVerifiedUser();
    const account = await app.signIn(user);
    const authenticator = createAuthenticator();
    await passkeys.register(account, authenticator);
    await account.put("/user/second-factor", { required: true });
    expect((await app.resetPassword(await app.resetTokenFor(user.email))).status).toBe(200);
    const { body } = await app.login(user.email, "Brand-new-2");
    expect(body.requiresMfa).toBe(true);
    expect((await passkeys.signIn(authenticator)).status).toBe(200);
  });

  test("administrators see a required second factor, and turn it off", async () => {
    const account = await passkeys.addUser();
    const { user, put } = account;
    await put("/user/second-factor", { required: true });
    const admin = await app.signInAdmin();
    const path = `/admin/users/${user.id}`;
    const seen = async () => (await admin.get(path)).body.secondFactorRequired;
    expect(await seen()).toBe(true);
    expect((await admin.put(path, { mfaEnabled: false })).status).toBe(200);
    expect(await seen()).toBeUndefined();
    expect((await app.login(user.email)).body.requiresMfa).toBe(false);
  });
});

describe("Ways in", () => {
  test("GET /admin/users/:id/sign-in-methods: shows administrators how a user can sign in, over REST and gRPC", async () => {
    const { user, put, delete: remove } = await passkeys.addUser();
    const { get, headers } = await app.signInAdmin();
    const path = `/admin/users/${user.id}/sign-in-methods`;
    const none = { identities: 0, emailCode: false };
    expect((await get(path)).body).toEqual({
      ...{ hasPassword: true, passkeys: 1, secondFactorRequired: false },
      ...none,
    });
    await put("/user/second-factor", { required: true });
    await remove("/user/password");
    const changed = { hasPassword: false, passkeys: 1, secondFactorRequired: true, ...none };
    expect((await get(path)).body).toEqual(changed);
    const { id } = user;
    const admin = app.grpc(AdminService);
    expect(await admin.getUserSignInMethods({ id }, { headers })).toMatchObject(changed);
    expect(await get(`/admin/users/${randomUUID()}/sign-in-methods`)).toMatchObject(
      refusal(404, "NOT_FOUND"),
    );
  });

  test("DELETE /user/password: works with a passkey, which then is the last way in", async () => {
    const { user, authenticator, passkey, delete: remove, get } = await passkeys.addUser();
    const other = await app.signIn(user);
    expect((await remove("/user/password")).status).toBe(200);
    expect(await other.profileStatus()).toBe(401);
    expect((await get("/user/sign-in-methods")).body).toMatchObject({
      hasPassword: false,
      passkeys: 1,
    });
    expect((await app.login(user.email)).status).toBe(401);
    expect((await passkeys.signIn(authenticator)).status).toBe(200);
    expect(await remove(`/user/passkeys/${passkey.id}`)).toMatchObject(
      refusal(409, "LAST_SIGN_IN_METHOD"),
    );
    expect((await app.mail.emailTo(user.email, /password was removed/)).subject).toBeTruthy();
  });

  test("if password and passkey are removed concurrently, one stays", async () => {
    for (let round = 0; round < 5; round++) {
      const { passkey, delete: remove } = await passkeys.addUser();
      const answers = await Promise.all([
        remove("/user/password"),
        remove(`/user/passkeys/${passkey.id}`),
      ]);
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    }
  });

  test("without a password, one of two passkeys stays if 10 tabs concurrently remove them", async () => {
    const account = await passkeys.addUser();
    await passkeys.register(account);
    await account.delete("/user/password");
    const ids = (await account.get("/user/passkeys")).body.map(({ id }: { id: string }) => id);
    await Promise.all(
      Array.from({ length: 10 }, (_, i) => account.delete(`/user/passkeys/${ids[i % 2]}`)),
    );
    expect((await account.get("/user/passkeys")).body).toHaveLength(1);
  });

  test("DELETE /user/passkeys/:id: returns the remaining credentials, and notifies the owner", async () => {
    const account = await passkeys.addUser();
    const { passkey, authenticator, user } = account;
    await passkeys.register(account);
    const { body } = await account.delete(`/user/passkeys/${passkey.id}`);
    expect(body.acceptedIds).toHaveLength(1);
    expect(body.acceptedIds).not.toContain(authenticator.id);
    expect(await passkeys.signIn(authenticator)).toMatchObject(UNKNOWN);
    expect((await app.mail.emailTo(user.email, /passkey was removed/)).subject).toBeTruthy();
  });

  test("POST /auth/confirm: a passkey confirms the session without a code, once", async () => {
    const { user, browser, authenticator } = await passkeys.addUser();
    await app.setUpFactor(user);
    app.clock.advance("20m");
    const { accessToken } = (await browser.post("/auth/refresh")).body;
    const account = withToken(browser, accessToken);
    const passkey = authenticator.get(await passkeys.optionsFor(account, "confirm"));
    expect((await account.post("/auth/confirm", { passkey })).status).toBe(200);
    expect(await account.post("/auth/confirm", { passkey })).toMatchObject(INVALID);
    expect((await account.post("/user/passkeys/options", { purpose: "register" })).status).toBe(
      200,
    );
    const both = { passkey, password: user.password };
    expect(await account.post("/auth/confirm", both)).toMatchObject(invalid("password"));
    const [event] = await app.auditOf(user.id, "auth.confirmed");
    expect(event).toMatchObject({ details: { method: "passkey" } });
  });

  test("POST /auth/confirm: a passkey of another user does not confirm the session", async () => {
    const [mine, other] = [await passkeys.addUser(), await passkeys.addUser()];
    const options = await passkeys.optionsFor(mine, "confirm");
    const passkey = other.authenticator.get(options);
    expect(await mine.post("/auth/confirm", { passkey })).toMatchObject(INVALID);
  });

  test("reset-access, and a password reset of a never-verified account, remove passkeys", async () => {
    const [first, second] = [await passkeys.addUser(), await passkeys.addUser()];
    const admin = await app.signInAdmin();
    await admin.post(`/admin/users/${first.user.id}/reset-access`);
    expect(await passkeys.signIn(first.authenticator)).toMatchObject(UNKNOWN);
    await app.resetPassword(await app.resetTokenFor(second.user.email));
    expect(await passkeys.signIn(second.authenticator)).toMatchObject(UNKNOWN);
  });

  test("a sign-in with a passkey cancels a requested deletion, and erasure deletes the passkeys", async () => {
    const { user, post, authenticator } = await passkeys.addUser();
    await post("/user/delete-account", {});
    expect((await passkeys.signIn(authenticator)).body.restored).toBe(true);
    const admin = await app.signInAdmin();
    await admin.delete(`/admin/users/${user.id}`);
    expect(await passkeys.signIn(authenticator)).toMatchObject(UNKNOWN);
    expect(await app.sql("select 1 from passkeys where user_id = ?", [user.id])).toEqual([]);
  });

  test("GET /user/export: contains the passkeys without their keys", async () => {
    const { get, authenticator } = await passkeys.addUser();
    const { body } = await get("/user/export");
    expect(body.passkeys).toEqual([
      {
        id: TEXT,
        name: "node",
        algorithm: -7,
        transports: ["internal"],
        aaguid: "00000000-0000-0000-0000-000000000000",
        synced: false,
        createdAt: TIME,
      },
    ]);
    expect(JSON.stringify(body)).not.toContain(authenticator.id);
  });
});

describe("Settings REQUIRE_ADMIN_MFA, REQUIRE_VERIFIED_EMAIL, PASSKEY_RP_ID, PASSKEY_ORIGINS", async () => {
  const android = `android:apk-key-hash:${"b".repeat(43)}`;
  const strict = await startSuiteApp({
    env: {
      REQUIRE_ADMIN_MFA: "on",
      REQUIRE_VERIFIED_EMAIL: "true",
      APP_URL: "https://app.example.com",
      PUBLIC_URL: "https://api.example.com",
      PASSKEY_RP_ID: "example.com",
      PASSKEY_ORIGINS: android,
    },
  });
  const actions = passkeyActions(strict);
  const origin = "https://app.example.com";

  test("a challenge of another deployment is refused, even if its RP id is the same", async () => {
    const { authenticator } = await passkeys.addUser();
    const { challenge } = await passkeyActions(strict).signInOptions();
    expect(await passkeys.signIn(authenticator, { challenge })).toMatchObject(INVALID);
  });

  test("a passkey satisfies REQUIRE_ADMIN_MFA, from each configured origin", async () => {
    const admin = await strict.addVerifiedUser({ role: "admin" });
    const account = await strict.signIn(admin);
    expect(await account.get("/admin/users")).toMatchObject(refusal(403, "MFA_REQUIRED"));
    const authenticator = createAuthenticator(origin);
    expect((await actions.register(account, authenticator)).status).toBe(201);
    for (const from of [origin, "https://api.example.com", android]) {
      const { status, body } = await actions.signIn(authenticator, { origin: from });
      expect(status).toBe(200);
      const { get } = withToken(strict.httpClient(), body.accessToken);
      expect((await get("/admin/users")).status).toBe(200);
    }
    expect(await actions.signIn(authenticator, { origin: "https://example.com" })).toMatchObject(
      INVALID,
    );
  });

  test("a passkey does not sign in to an account with an unverified address", async () => {
    const user = await strict.addVerifiedUser();
    const account = await strict.signIn(user);
    const authenticator = createAuthenticator(origin);
    await actions.register(account, authenticator);
    await strict.sql("update users set email_verified_at = null where id = ?", [user.id]);
    expect(await actions.signIn(authenticator)).toMatchObject(refusal(403, "EMAIL_NOT_VERIFIED"));
  });

  test("GET /.well-known/passkey-endpoints: directs password managers to the app", async () => {
    const { body } = await strict.httpClient().get("/.well-known/passkey-endpoints");
    const page = "https://app.example.com/account/security";
    expect(body).toEqual({ enroll: page, manage: page });
  });
});

describe("Settings APP_URL with an IP address", async () => {
  const bare = await startSuiteApp({ env: { APP_URL: "http://127.0.0.1:3000" } });

  test("passkeys are off, and GET /auth/sign-in-methods says so", async () => {
    expect((await bare.httpClient().get("/auth/sign-in-methods")).body.passkey).toBe(false);
    const options = await bare.httpClient().post("/auth/passkey-options", {});
    expect(options).toMatchObject(refusal(404, "NOT_FOUND"));
  });
});
