import { test as base, expect } from "vitest";
import { WRONG_CODE, WRONG_PASSWORD } from "../../support/accounts.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { testApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";
import { TEXT, TIME } from "../../support/http/responses.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const withAddress = ({ password }: { password: string }, email: string) => ({
  email,
  credentials: { email, password },
});
const test = base.extend("account", () => app.signIn());

test("GET /user/export: returns everything stored about the user, without secrets", async () => {
  const { user, browser, get, put, ...account } = await app.setUpFactor(
    await app.addVerifiedUser({ name: "Ann Öx" }),
  );
  const { id, email } = user;
  await put("/user/profile", { bio: "Reads." });
  await get("/admin/users"); // denied: an event that names the user as its actor alone
  const unsent = () => app.sql("select 1 from emails where user_id = ? and status <> 'sent'", [id]);
  await until("the e-mails to be sent", async () => (await unsent()).length === 0);
  expect((await app.httpClient().get("/user/export")).status).toBe(401);
  const { status, body } = await get("/user/export");
  const parts = [
    "apiKeys",
    "auditEvents",
    "budgets",
    "devices",
    "emails",
    "exportedAt",
    "failedAttempts",
    "openLinks",
    "profile",
    "sessions",
    "usage",
    "usageDays",
  ];
  expect([status, Object.keys(body).sort()]).toEqual([200, parts]);
  const times = {
    emailVerifiedAt: TIME,
    passwordChangedAt: TIME,
    termsAcceptedAt: TIME,
    lastLoginAt: TIME,
  };
  const profile = { id, email, name: "Ann Öx", bio: "Reads.", role: "user", mfaEnabled: true };
  const mfa = { backupCodesLeft: 10 };
  expect(body.profile).toEqual({ ...profile, ...mfa, createdAt: TIME, updatedAt: TIME, ...times });
  expect(body.sessions).toHaveLength(1);
  expect(body.sessions[0]).toMatchObject({ ip: browser.address, impersonated: false });
  const events = body.auditEvents.map(({ event }: { event: string }) => event);
  const since =
    "admin.denied user.profile_updated auth.mfa_setup auth.login auth.email_verified auth.register";
  expect(events.join(" ")).toBe(since);
  const from = { actorId: id, ip: browser.address, userAgent: "node", requestId: TEXT };
  const [denied, updated] = body.auditEvents;
  expect(denied).toMatchObject({ ...from, outcome: "failure" });
  const event = { id: TEXT, event: "user.profile_updated", outcome: "success", details: {} };
  expect(updated).toEqual({ ...event, ...from, createdAt: TIME });
  const mails = body.emails.map(({ template }: { template: string }) => template);
  expect(mails).toEqual(["mfa-enabled", "verify-email"]);
  const delivery = { status: "sent", attempts: 1, sentAt: TIME };
  const sent = { id: TEXT, to: email, ...delivery, createdAt: TIME };
  expect(body.emails[0]).toEqual({ ...sent, template: "mfa-enabled" });
  expect(body.usage).toEqual([]);
  const { token } = await app.mail.emailTo(email, /Verify/);
  for (const secret of [account.authenticator.secret, token, "argon2", account.refreshToken])
    expect(JSON.stringify(body)).not.toContain(secret);
});

const requested = [
  { what: "a free one", isTaken: false },
  { what: "one of another account", isTaken: true },
];
test.for(requested)(
  "GET /user/export: includes the address that still has to be verified, even if it is $what",
  async ({ isTaken }) => {
    const { user, get, post } = await app.signIn(await app.addVerifiedUser());
    expect((await get("/user/export")).body).not.toHaveProperty("pendingEmail");
    const newEmail = isTaken ? (await app.addUser()).email : `new-${user.email}`;
    await post("/user/change-email", { newEmail, password: user.password });
    const pending = { address: newEmail, requestedAt: TIME, expiresAt: TIME };
    const { body } = await get("/user/export");
    expect(body.pendingEmail).toEqual(pending);
    expect(JSON.stringify(body.openLinks)).not.toContain("change-email");
    if (!isTaken) await app.verifyEmail((await app.mail.emailTo(newEmail)).token);
    else app.clock.advance("25h");
    const later = await app.signIn(isTaken ? user : { ...user, ...withAddress(user, newEmail) });
    expect((await later.get("/user/export")).body).not.toHaveProperty("pendingEmail");
  },
);

test("GET /user/export: includes failed attempts by kind, and the number of remaining backup codes", async () => {
  const { user, authenticator, ...account } = await app.setUpConfirmedFactor();
  for (let i = 0; i < 2; i++) await app.guess(user.email);
  await account.post("/user/change-email", { newEmail: "x@example.com", password: WRONG_PASSWORD });
  const tempToken = await app.mfaTokenFor(user);
  await app.verifyMfa(tempToken, WRONG_CODE);
  await app.guess(user.email);
  const { body } = await account.get("/user/export");
  const failed = (kind: string) => ({ kind, failed: 1, consecutive: 1, failedAt: TIME });
  expect(body.failedAttempts).toEqual(["confirmation", "password", "second-factor"].map(failed));
  const backupCode = authenticator.backupCodes[0];
  expect((await app.verifyMfa(tempToken, { backupCode })).status).toBe(200);
  expect((await account.get("/user/export")).body.profile.backupCodesLeft).toBe(9);
});

test("GET /user/export: includes ended sessions as long as they are stored", async ({
  account: { user, browser, get },
}) => {
  await (await app.signIn(user)).post("/auth/logout");
  const [ended, open] = (await get("/user/export")).body.sessions;
  expect(open.ip).toBe(browser.address);
  const times = { createdAt: TIME, lastActive: TIME, endsAt: TIME };
  const kept = { id: TEXT, device: TEXT, ip: TEXT, impersonated: false, methods: ["password"] };
  for (const session of [ended, open]) expect(session).toEqual({ ...kept, ...times });
  expect(new Date(ended.endsAt) <= app.clock.now()).toBe(true);
  expect(new Date(open.endsAt) > app.clock.now()).toBe(true);
});

test("GET /user/export: includes AI usage", async ({ account: { get, post } }) => {
  const chat = await post("/ai/chat", conversationOf("Hello"));
  expect(chat.status).toBe(200);
  const call = {
    id: TEXT,
    provider: "provider-a",
    model: "model-a-1",
    outcome: "completed",
    createdAt: TIME,
  };
  const times = { latencyMs: expect.any(Number), firstChunkMs: expect.any(Number) };
  const usage = async () => (await get("/user/export")).body.usage;
  const tokens = { cachedInputTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
  const details = { ...tokens, attempts: 1, cost: TEXT, currency: "USD" };
  await expect
    .poll(usage)
    .toEqual([{ ...call, ...times, ...chat.body.usage, ...details, estimated: false }]);
});

test("GET /user/export: returns everything page by page", async ({ account: { user, get } }) => {
  await app.sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, output_tokens, created_at)
       select gen_random_uuid(), ?, 'provider-a', 'model-a-1', 'completed', n, 1, ? from generate_series(1, 9001) as n`,
    [user.id, app.clock.now()],
  );
  const tokens = new Set<number>();
  const pages: number[] = [];
  for (let page: number | undefined = 1; page; ) {
    const { body } = await get(`/user/export?page=${page}`);
    pages.push(body.usage.length);
    for (const { inputTokens } of body.usage) tokens.add(inputTokens);
    expect([body.auditEvents.length, body.sessions.length]).toEqual(page === 1 ? [2, 1] : [0, 0]);
    page = body.nextPage;
  }
  expect(pages).toEqual([4_000, 4_000, 1_001]);
  expect(tokens.size).toBe(9_001);
  const refused = { status: 400, body: { message: expect.stringContaining("page") } };
  for (const page of ["0", "10001", "two"])
    expect(await get(`/user/export?page=${page}`)).toMatchObject(refused);
});

test("GET /user/export: includes actions of administrators without address, device and reason", async () => {
  const admin = await app.signInAdmin();
  const { user, get } = await app.signIn();
  const { body: opened } = await admin.post(`/admin/impersonate/${user.id}`, {
    reason: "Do not tell",
  });
  const { address } = admin.browser;
  await withToken(admin.browser, opened.accessToken).post("/auth/logout");
  await app.guess(user.email, app.httpClient(address));
  const { body } = await get("/user/export");
  const byAdmin = body.auditEvents.filter(
    ({ actorId }: { actorId?: string }) => actorId === admin.user.id,
  );
  const action = {
    id: TEXT,
    outcome: "success",
    actorId: admin.user.id,
    requestId: TEXT,
    createdAt: TIME,
  };
  expect(byAdmin).toEqual([
    { ...action, event: "auth.logout", details: {} },
    { ...action, event: "admin.impersonated", details: { sessionId: TEXT } },
  ]);
  const guessed = body.auditEvents.find(
    ({ event }: { event: string }) => event === "auth.login_failed",
  );
  expect(guessed).toMatchObject({ ip: address, userAgent: "node" }); // an unknown caller
  const [session] = body.sessions;
  expect(session).toMatchObject({ impersonated: true });
  for (const name of ["ip", "device", "location"]) expect(session).not.toHaveProperty(name);
  expect(JSON.stringify(body)).not.toContain("Do not tell");
});
