import { expect, test } from "vitest";
import { signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { setUpFactor } from "../../support/authenticator.ts";
import { until } from "../../support/until.ts";

const app = await testApp();

test("GET /user/export: returns everything stored about the user, and no secret", async () => {
  const account = await setUpFactor(app, await app.addVerifiedUser({ name: "Ann Öx" }));
  await account.browser.put("/user/profile", { bio: "Reads." }, account.accessToken);
  await account.browser.get("/admin/users", account.accessToken); // denied: an event that names the user as its actor alone
  const { id } = account.user;
  const unsent = () => app.sql("select 1 from emails where user_id = ? and status <> 'sent'", [id]);
  await until("the e-mails to be sent", async () => (await unsent()).length === 0);
  expect((await app.httpClient().get("/user/export")).status).toBe(401);
  const { status, body } = await account.browser.get("/user/export", account.accessToken);
  expect(status).toBe(200);
  const parts = ["auditEvents", "emails", "exportedAt", "profile", "sessions", "usage", "usageDays"];
  expect(Object.keys(body).sort()).toEqual(parts);
  const time = expect.stringMatching(/Z$/);
  const times = { emailVerifiedAt: time, passwordChangedAt: time, termsAcceptedAt: time, lastLoginAt: time };
  expect(body.profile).toEqual({
    id,
    email: account.user.email,
    name: "Ann Öx",
    bio: "Reads.",
    role: "user",
    mfaEnabled: true,
    createdAt: time,
    updatedAt: time,
    ...times,
  });
  expect(body.sessions).toHaveLength(1);
  expect(body.sessions[0]).toMatchObject({ ip: account.browser.address, impersonated: false });
  const events = body.auditEvents.map(({ event }: { event: string }) => event);
  expect(events).toEqual([
    ...["admin.denied", "user.profile_updated"],
    ...["auth.mfa_setup", "auth.login", "auth.email_verified", "auth.register"],
  ]);
  const from = { actorId: id, ip: account.browser.address, userAgent: "node", requestId: expect.any(String) };
  const [denied, updated] = body.auditEvents;
  expect(denied).toMatchObject({ ...from, outcome: "failure" });
  const event = { id: expect.any(String), event: "user.profile_updated", outcome: "success", details: {} };
  expect(updated).toEqual({ ...event, ...from, createdAt: time });
  const mails = body.emails.map(({ template }: { template: string }) => template);
  expect(mails).toEqual(["mfa-enabled", "verify-email"]);
  const email = { id: expect.any(String), to: account.user.email, status: "sent", createdAt: time, sentAt: time };
  expect(body.emails[0]).toEqual({ ...email, template: "mfa-enabled" });
  expect(body.usage).toEqual([]);
  const { token } = await app.mail.emailTo(account.user.email, /Confirm/);
  for (const secret of [account.authenticator.secret, token, "argon2", account.refreshToken]) {
    expect(JSON.stringify(body)).not.toContain(secret);
  }
});

test("GET /user/export: includes ended sessions while they are stored", async () => {
  const { user, browser, accessToken } = await app.signIn();
  const other = await app.signIn(user);
  await other.browser.post("/auth/logout", undefined, other.accessToken);
  const { body } = await browser.get("/user/export", accessToken);
  expect(body.sessions.at(-1)).toMatchObject({ ip: browser.address });
  const [ended, open] = body.sessions;
  for (const session of [ended, open]) {
    expect(session).toEqual({
      id: expect.any(String),
      device: expect.any(String),
      ip: expect.any(String),
      impersonated: false,
      createdAt: expect.stringMatching(/Z$/),
      lastActive: expect.stringMatching(/Z$/),
      endsAt: expect.stringMatching(/Z$/),
    });
  }
  expect(new Date(ended.endsAt) <= app.clock.now()).toBe(true);
  expect(new Date(open.endsAt) > app.clock.now()).toBe(true);
});

test("GET /user/export: includes AI usage", async () => {
  const account = await app.signIn();
  const messages = [{ role: "user", content: "Hello" }];
  const chat = await account.browser.post("/ai/chat", { provider: "provider-a", messages }, account.accessToken);
  expect(chat.status).toBe(200);
  const usage = async () => (await account.browser.get("/user/export", account.accessToken)).body.usage;
  await expect.poll(usage).toEqual([
    {
      id: expect.any(String),
      provider: "provider-a",
      model: "model-a-1",
      outcome: "completed",
      ...chat.body.usage,
      estimated: false,
      latencyMs: expect.any(Number),
      firstChunkMs: expect.any(Number),
      createdAt: expect.stringMatching(/Z$/),
    },
  ]);
});

test("GET /user/export: pages until everything is returned", async () => {
  const { user, browser, accessToken } = await app.signIn();
  await app.sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, output_tokens, created_at)
       select gen_random_uuid(), ?, 'provider-a', 'model-a-1', 'completed', n, 1, ? from generate_series(1, 9001) as n`,
    [user.id, app.clock.now()],
  );
  const tokens = new Set<number>();
  const pages: number[] = [];
  for (let page: number | undefined = 1; page; ) {
    const { body } = await browser.get(`/user/export?page=${page}`, accessToken);
    pages.push(body.usage.length);
    for (const { inputTokens } of body.usage) tokens.add(inputTokens);
    expect(body.auditEvents).toHaveLength(page === 1 ? 2 : 0);
    expect(body.sessions).toHaveLength(page === 1 ? 1 : 0);
    page = body.nextPage;
  }
  expect(pages).toEqual([4_000, 4_000, 1_001]);
  expect(tokens.size).toBe(9_001);
  for (const page of ["0", "10001", "two"]) {
    expect(await browser.get(`/user/export?page=${page}`, accessToken)).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining("page") },
    });
  }
});

test("GET /user/export: has the actions of an administrator without address, device and reason", async () => {
  const admin = await signInAdmin(app);
  const { user, browser, accessToken } = await app.signIn();
  const { body: impersonated } = await admin.post(`/admin/impersonate/${user.id}`, { reason: "Do not tell" });
  const { address } = admin.browser;
  await admin.browser.put("/user/profile", { name: "Bea" }, impersonated.accessToken);
  await app.httpClient(address).post("/auth/login", { ...user.credentials, password: "Wrong-1-guess" });
  const { body } = await browser.get("/user/export", accessToken);
  const byAdmin = body.auditEvents.filter(({ actorId }: { actorId?: string }) => actorId === admin.user.id);
  expect(byAdmin).toEqual(
    ["user.profile_updated", "admin.impersonated"].map((event) => ({
      id: expect.any(String),
      event,
      outcome: "success",
      actorId: admin.user.id,
      requestId: expect.any(String),
      details: event === "admin.impersonated" ? { sessionId: expect.any(String) } : {},
      createdAt: expect.any(String),
    })),
  );
  const guess = body.auditEvents.find(({ event }: { event: string }) => event === "auth.login_failed");
  expect(guess).toMatchObject({ ip: address, userAgent: "node" }); // an unknown caller
  const [session] = body.sessions;
  expect(session).toMatchObject({ impersonated: true });
  for (const name of ["ip", "device", "location"]) expect(session).not.toHaveProperty(name);
  expect(JSON.stringify(body)).not.toContain("Do not tell");
});
