import { describe, expect, test } from "vitest";
import { startSuiteApp } from "../../support/app.ts";
import { refusal, TEXT, TIME } from "../../support/http/responses.ts";
import { until } from "../../support/until.ts";
import { expectSigned, status, WEBHOOK_ENV, webhookActions } from "../../support/webhooks.ts";

const app = await startSuiteApp({ env: { ...WEBHOOK_ENV, RATE_LIMITS: "off" } });
const { asAdmin, addWebhook, rename, untilSealed } = webhookActions(app);

const RENAMED = "user.profile_updated";

describe("Webhooks", () => {
  test("deliver a signed event with its user, without data about the client", async () => {
    const { id, endpoint, secret, deliveries } = await addWebhook();
    const { user, ...account } = await rename();
    const [received] = await endpoint.until(RENAMED, user.id);
    if (!received) throw new Error("nothing received");
    const [event] = await app.auditOf(user.id, RENAMED);
    const profile = (await account.get("/user/profile")).body;
    expect(received.event).toEqual({
      type: RENAMED,
      timestamp: TIME,
      data: {
        ...{ userId: user.id, actorId: user.id, details: event?.details, user: profile },
      },
    });
    expectSigned(received, secret);
    expect(received.headers).toMatchObject({
      "content-type": "application/json",
      "user-agent": expect.stringMatching(/^gatehouse\//),
    });
    expect(received.body).not.toMatch(/\b10\.\d+\.\d+\.\d+/); // the address of the client
    const [delivery] = await until("the record", async () => {
      const items = await deliveries("&status=delivered");
      return items.length > 0 ? items : undefined;
    });
    expect(delivery).toEqual({
      ...{ id: TEXT, webhookId: id, eventId: received.id, event: RENAMED },
      ...{ status: "delivered", attempts: 1, responseStatus: 204 },
      ...{ createdAt: TIME, deliveredAt: TIME },
    });
  });

  test("deliver each event of their list once, and no others", async () => {
    const one = await addWebhook({ events: ["user.email_changed"] });
    const all = await addWebhook({ events: ["auth.*", RENAMED] });
    const { user } = await rename();
    await all.endpoint.until(RENAMED, user.id);
    await all.endpoint.until("auth.login", user.id);
    const received = all.endpoint.received.filter(({ event }) => event.data.userId === user.id);
    const types = received.map(({ event }) => event.type);
    expect(types.sort()).toEqual(["auth.login", "auth.register", RENAMED]);
    expect(new Set(received.map(({ id }) => id)).size).toBe(types.length);
    expect(one.endpoint.received).toEqual([]);
  });

  test("queue nothing for failed attempts of strangers", async () => {
    const { id, endpoint } = await addWebhook({ events: ["auth.*", "admin.*"] });
    const account = await app.signIn();
    await app.guess(account.user.email);
    await app.guess("nobody@example.com");
    expect((await account.get("/admin/users")).status).toBe(403);
    await account.post("/auth/logout", {});
    await endpoint.until("auth.logout", account.user.id);
    const queued = await app.sql<{ event: string }>(
      "select distinct event from webhook_deliveries where webhook_id = ?",
      [id],
    );
    const events = queued.map(({ event }) => event);
    expect(events).toContain("auth.login");
    for (const event of ["auth.login_failed", "admin.denied"]) expect(events).not.toContain(event);
    expect(await app.auditOf(account.user.id, "auth.login_failed")).toHaveLength(1);
    expect(await app.denialsOf(account.user.id)).toHaveLength(1);
  });

  test("deliver the erasure of a user without the profile", async () => {
    const { endpoint, secret } = await addWebhook({ events: ["user.erased"] });
    const [admin, user] = [await asAdmin(), await app.addUser()];
    await admin.delete(`/admin/users/${user.id}`);
    const [received] = await endpoint.until("user.erased", user.id);
    const { userId, user: profile } = received?.event.data ?? {};
    expect([userId, profile]).toEqual([user.id, undefined]);
    if (received) expectSigned(received, secret);
  });

  test("retry with the same id after 5 seconds, or when the endpoint asks for it", async () => {
    const { endpoint, deliveries, read } = await addWebhook({}, status(500));
    const { user } = await rename();
    await endpoint.until(RENAMED, user.id);
    const untilAttempt = (attempts: number) =>
      until(`attempt ${attempts}`, async () => {
        const [delivery] = await deliveries();
        return delivery?.attempts === attempts && delivery.status === "queued" && delivery;
      });
    const delayOf = ({ nextAttemptAt }: { nextAttemptAt: string }) =>
      Date.parse(nextAttemptAt) - app.clock.now().getTime();
    const failed = await untilAttempt(1);
    expect(failed).toMatchObject({ responseStatus: 500, lastError: "status 500" });
    expect(delayOf(failed)).toBeLessThanOrEqual(6_250);
    expect((await read()).failingSince).toEqual(TIME);
    endpoint.answer = status(503, { "retry-after": "3600" });
    app.clock.advance("7s");
    await endpoint.until(RENAMED, user.id, 2);
    expect(delayOf(await untilAttempt(2))).toBeGreaterThan(3_500_000);
    endpoint.answer = status(200);
    app.clock.advance("61m");
    const attempts = await endpoint.until(RENAMED, user.id, 3);
    expect(new Set(attempts.map(({ id }) => id)).size).toBe(1);
    await until("the success", async () => (await deliveries("&status=delivered")).length === 1);
    expect(await read()).not.toHaveProperty("failingSince");
  });

  test("are turned off by status 410, notify administrators, and can be turned on for new events", async () => {
    const form = { description: "Billing" };
    const { id, path, endpoint, read, changes } = await addWebhook(form, status(410));
    const first = await rename();
    await endpoint.until(RENAMED, first.user.id);
    const off = await until("the end", async () => {
      const webhook = await read();
      return webhook.disabledAt && webhook;
    });
    expect(off).toMatchObject({ disabledReason: "gone", queued: 0 });
    const { host } = new URL(endpoint.url);
    const admin = await asAdmin();
    const { text } = await app.mail.emailTo(admin.user.email, /webhook was turned off/);
    for (const part of [host, "410", "Billing"]) expect(text).toContain(part);
    expect(text).not.toContain("private");
    const details = { id, host, change: "disabled", reason: "gone" };
    expect((await changes()).at(-1)).toEqual({ actor_id: null, details });
    const missed = await rename();
    await untilSealed();
    endpoint.answer = status(200);
    const from = new Date(app.clock.now().getTime() - 60_000).toISOString();
    expect(await admin.post(`${path}/replay`, { from })).toMatchObject(refusal(409, "CONFLICT"));
    expect((await admin.put(path, { disabled: false })).body.webhook).not.toHaveProperty(
      "disabledAt",
    );
    const later = await rename();
    await endpoint.until(RENAMED, later.user.id);
    expect(endpoint.of(RENAMED, missed.user.id)).toEqual([]);
    expect((await admin.post(`${path}/replay`, { from })).status).toBe(200);
    await endpoint.until(RENAMED, missed.user.id);
    const [before, replayed] = await endpoint.until(RENAMED, first.user.id, 2);
    expect(replayed?.id).toBe(before?.id);
  });

  test("give up a delivery after 3 days, and are turned off after five days without a success", async () => {
    const { endpoint, read, deliveries } = await addWebhook({}, status(500));
    const { user } = await rename();
    await endpoint.until(RENAMED, user.id);
    await until("the failure", async () => (await read()).failingSince);
    app.clock.advance("73h");
    await until("the end of the delivery", async () => {
      const failed = await deliveries("&status=failed");
      return failed.length === 1;
    });
    expect(await read()).not.toHaveProperty("disabledAt");
    app.clock.advance("48h");
    await rename();
    const off = await until("the end", async () => {
      const webhook = await read();
      return webhook.disabledAt && webhook;
    });
    expect(off).toMatchObject({ disabledReason: "failing", queued: 0 });
    const admin = await asAdmin();
    const { text } = await app.mail.emailTo(admin.user.email, /webhook was turned off/);
    for (const part of [new URL(endpoint.url).host, "five days"]) expect(text).toContain(part);
  });

  test("sign with both secrets for 24 hours after a rotation", async () => {
    const { path, endpoint, secret: old } = await addWebhook();
    const { body, status: rotated } = await (await asAdmin()).post(`${path}/rotate-secret`, {});
    expect([rotated, body.webhook.previousSecretUntil]).toEqual([200, TIME]);
    const both = await rename();
    const [first] = await endpoint.until(RENAMED, both.user.id);
    if (first) expectSigned(first, body.secret, old);
    app.clock.advance("24h");
    const later = await rename();
    const [second] = await endpoint.until(RENAMED, later.user.id);
    if (second) expectSigned(second, body.secret);
    expect([first, second]).not.toContain(undefined);
  });

  test("follow no redirect, and read nothing of the response but its status", async () => {
    const other = await addWebhook({ events: ["user.erased"] });
    const { endpoint, deliveries } = await addWebhook(
      {},
      status(307, { location: other.endpoint.url }),
    );
    const { user } = await rename();
    await endpoint.until(RENAMED, user.id);
    const [failed] = await until("the failure", async () => {
      const items = await deliveries();
      return items[0]?.lastError && items;
    });
    expect(failed).toMatchObject({ status: "queued", lastError: "status 307" });
    expect(other.endpoint.received).toEqual([]);
    endpoint.answer = (response) => {
      response.writeHead(200, { "content-type": "text/plain" });
      const timer = setInterval(() => response.write("x".repeat(65_536)), 1);
      response.on("close", () => clearInterval(timer));
    };
    app.clock.advance("7s");
    await until("the success", async () => (await deliveries("&status=delivered")).length === 1);
  });

  test("do not wait for a silent endpoint: others get their events", async () => {
    const silent = await addWebhook({ events: ["user.*", "auth.*"] }, () => {});
    const quick = await addWebhook();
    const places = process.env.TEST_MODE === "replicas" ? 20 : 10; // ten of each process
    for (let i = 0; i <= places / 2; i++) await rename(); // two events each
    await until("its places", () => silent.endpoint.received.length === places);
    const { user } = await rename();
    await quick.endpoint.until(RENAMED, user.id);
    expect(silent.endpoint.received).toHaveLength(places);
    const [late] = await until("the time limit", async () => {
      const items = await silent.deliveries();
      return items.filter(({ lastError }: { lastError?: string }) => lastError);
    });
    expect(late === undefined || late.lastError === "no answer in time").toBe(true);
  });
});
