import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { v7 as uuid } from "uuid";
import { describe, expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { startSuiteApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";
import { invalid, refusal, TEXT, TIME } from "../../support/http/responses.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";
import { status, WEBHOOK_ENV, webhookActions } from "../../support/webhooks.ts";

const app = await startSuiteApp({ env: { ...WEBHOOK_ENV, RATE_LIMITS: "off" } });
const { asAdmin, addWebhook, rename } = webhookActions(app);
const grpc = app.grpc(AdminService);

const URL_PUBLIC = "https://hooks.example.com/in?token=private";
const form = (more: object = {}) => ({ url: URL_PUBLIC, events: ["auth.login"], ...more });
const removeAll = () => app.sql("delete from webhooks");

describe("POST /admin/webhooks", () => {
  test("creates a webhook, shows its secret once, and records only the host", async () => {
    const admin = await asAdmin();
    const request = form({ description: "CRM", events: ["auth.*", "user.erased"] });
    const { status, body } = await admin.post("/admin/webhooks", request);
    expect([status, body]).toEqual([
      201,
      {
        webhook: { id: TEXT, ...request, createdAt: TIME, queued: 0 },
        secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      },
    ]);
    const { id } = body.webhook;
    const listed = (await admin.get("/admin/webhooks")).body;
    expect(listed).toContainEqual(body.webhook);
    expect(JSON.stringify(listed)).not.toContain(body.secret);
    const [stored] = await app.sql<{ secret: string }>("select secret from webhooks where id = ?", [
      id,
    ]);
    expect(stored?.secret).not.toContain(body.secret.slice(6));
    const [event] = await app.sql<{ details: object }>(
      "select details from audit_events where event = 'admin.webhook_changed' and details->>'id' = ?",
      [id],
    );
    expect(event?.details).toEqual({
      ...{ id, host: "hooks.example.com", change: "created", events: request.events },
    });
    await removeAll();
  });

  const badUrls = [
    "",
    "hooks.example.com",
    "ftp://hooks.example.com",
    "javascript:alert(1)",
    "http://hooks.example.com@127.0.0.1/",
    "https://user:secret@hooks.example.com",
    "https://hooks.example.com/#part",
    "https://hooks.example.com/#",
    `https://hooks.example.com/${"x".repeat(2_048)}`,
    ...[
      "https://10.0.0.1",
      "https://192.168.1.1:8443",
      "https://localhost",
      "https://localhost.",
      "https://app.localhost",
    ],
    ...["https://169.254.169.254/latest", "https://[fd00:ec2::254]", "https://[::1]", "https://0"],
    ...[
      "https://2886729729",
      "https://0xa000001",
      "https://012.1.1.1",
      "https://[::ffff:10.0.0.1]",
    ],
    ...[
      "https://[64:ff9b::a9fe:a9fe]",
      "https://224.0.0.1",
      "http://8.8.8.8",
      "https://100.64.0.1",
    ],
  ];
  test.each(badUrls)("rejects the URL %j on both ports", async (url) => {
    const admin = await asAdmin();
    expect(await admin.post("/admin/webhooks", form({ url }))).toMatchObject(invalid("url"));
    await expect(grpc.createWebhook(form({ url }), admin)).rejects.toMatchObject({
      code: Code.InvalidArgument,
    });
    const existing = await addWebhook();
    expect(await admin.put(existing.path, { url })).toMatchObject(invalid("url"));
  });

  const badEvents: [object, string][] = [
    [{ events: [] }, "events"],
    [{ events: undefined }, "events"],
    [{ events: ["auth.login", "auth.login"] }, "events"],
    [{ events: ["*"] }, "events[0]"],
    [{ events: ["auth.login", "auth.nothing"] }, "events[1]"],
    [{ events: ["other.*"] }, "events[0]"],
    [{ events: ["auth.login_failed"] }, "events[0]"],
    [{ events: ["admin.denied"] }, "events[0]"],
    [{ events: ["auth.constructor"] }, "events[0]"],
    [{ events: times(101, (i) => `auth.a${"b".repeat(i % 40)}`) }, "events"],
    [{ description: "x".repeat(201) }, "description"],
    [{ description: "two\nlines" }, "description"],
  ];
  test.each(badEvents)("rejects %j on both ports", async (more, field) => {
    const admin = await asAdmin();
    const { status, body } = await admin.post("/admin/webhooks", form(more));
    expect([status, body.violations?.[0].field]).toEqual([400, field]);
    await expect(grpc.createWebhook(form(more), admin)).rejects.toMatchObject({
      code: Code.InvalidArgument,
    });
  });

  test("creates at most 20 webhooks for 25 concurrent requests", async () => {
    await removeAll();
    const admin = await asAdmin();
    const answers = await Promise.all(times(25, () => admin.post("/admin/webhooks", form())));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(20);
    const refused = answers.find(({ status }) => status !== 201);
    expect(refused).toMatchObject(refusal(409, "CONFLICT"));
    await removeAll();
  });
});

describe("PUT, DELETE /admin/webhooks/:id", () => {
  test("change only the given fields, and record each change", async () => {
    const admin = await asAdmin();
    const { id, path, read, changes } = await addWebhook({ description: "CRM" });
    const { status: changed, body } = await admin.put(path, { url: URL_PUBLIC });
    expect(changed).toBe(200);
    expect(body.webhook).toMatchObject({ url: URL_PUBLIC, events: ["user.*"], description: "CRM" });
    await admin.put(path, { events: ["auth.login"], description: "" });
    expect(await read()).toMatchObject({ url: URL_PUBLIC, events: ["auth.login"] });
    expect(await read()).not.toHaveProperty("description");
    await admin.put(path, { disabled: true });
    expect(await read()).toMatchObject({ disabledAt: TIME, disabledReason: "requested" });
    await admin.put(path, { disabled: true });
    await admin.put(path, { disabled: false });
    expect(await read()).not.toHaveProperty("disabledAt");
    await admin.delete(path);
    expect(await read()).toBeUndefined();
    const host = "hooks.example.com";
    expect((await changes()).slice(1)).toEqual(
      [
        { id, host, change: "updated", fields: ["url"] },
        { id, host, change: "updated", fields: ["events", "description"], events: ["auth.login"] },
        { id, host, change: "disabled", reason: "requested" },
        { id, host, change: "enabled" },
        { id, host, change: "deleted" },
      ].map((details) => ({ actor_id: admin.user.id, details })),
    );
  });

  test("turning it off fails waiting deliveries, which can be queued again once it is on", async () => {
    const { path, endpoint, deliveries, read } = await addWebhook({}, status(500));
    const admin = await asAdmin();
    const { user } = await rename();
    await endpoint.until("user.profile_updated", user.id);
    await until("the failure", async () => (await read()).failingSince);
    expect(await read()).toMatchObject({ queued: 1 });
    await admin.put(path, { disabled: true });
    const [failed] = await deliveries();
    expect(failed).toMatchObject({ status: "failed", lastError: "the webhook was turned off" });
    const retry = `/admin/webhook-deliveries/${failed.id}/retry`;
    expect(await admin.post(retry, {})).toMatchObject(refusal(409, "CONFLICT"));
    endpoint.answer = status(200);
    await admin.put(path, { disabled: false });
    expect((await admin.post(retry, {})).status).toBe(200);
    const [first, second] = await endpoint.until("user.profile_updated", user.id, 2);
    expect(second?.id).toBe(first?.id);
    await until("the success", async () => (await deliveries("&status=delivered")).length === 1);
    expect(await admin.post(retry, {})).toMatchObject(refusal(409, "CONFLICT"));
  });
});

describe("POST /admin/webhooks/:id/test", () => {
  test("sends one event, whatever the response, even while the webhook is off", async () => {
    const { path, endpoint, deliveries } = await addWebhook({}, status(500));
    const admin = await asAdmin();
    await admin.put(path, { disabled: true });
    const { status: sent, body } = await admin.post(`${path}/test`, {});
    expect([sent, body]).toEqual([200, { message: TEXT, deliveryId: TEXT }]);
    const [received] = await endpoint.until("webhook.test");
    expect(received?.event).toEqual({
      type: "webhook.test",
      timestamp: TIME,
      data: { details: {} },
    });
    const failed = await until("the end", async () => {
      const [delivery] = await deliveries("&event=webhook.test");
      return delivery.status === "failed" && delivery;
    });
    expect(failed).toMatchObject({ id: body.deliveryId, attempts: 1, lastError: "status 500" });
  });
});

describe("POST /admin/webhooks/:id/replay", () => {
  test("queues the events of a period again, with their ids", async () => {
    const { path, endpoint } = await addWebhook({ events: ["user.*"] });
    const admin = await asAdmin();
    const from = app.clock.now().toISOString();
    const { user } = await rename();
    const [first] = await endpoint.until("user.profile_updated", user.id);
    const to = new Date(app.clock.now().getTime() + 1).toISOString();
    const { status, body } = await admin.post(`${path}/replay`, { from, to });
    expect([status, body]).toEqual([200, { message: TEXT, queued: 1 }]);
    const [, again] = await endpoint.until("user.profile_updated", user.id, 2);
    expect(again?.id).toBe(first?.id);
    const earlier = { from: "2020-01-01T00:00:00Z", to: from };
    expect((await admin.post(`${path}/replay`, earlier)).body.queued).toBeTypeOf("number");
  });

  test.each([
    [{}, "from"],
    [{ from: "1969-12-31T23:59:59Z" }, "from"],
    [{ from: "2100-01-01T00:00:00Z" }, "from"],
    [{ from: "2026-01-02T00:00:00Z", to: "2026-01-01T00:00:00Z" }, "to"],
  ])("rejects the period %j on both ports", async (period, field) => {
    const { id, path } = await addWebhook();
    const admin = await asAdmin();
    expect(await admin.post(`${path}/replay`, period)).toMatchObject(invalid(field));
    const stamps = Object.fromEntries(
      Object.entries(period).map(([name, time]) => [name, timestampFromDate(new Date(time))]),
    );
    await expect(grpc.replayWebhook({ id, ...stamps }, admin)).rejects.toMatchObject({
      code: Code.InvalidArgument,
    });
  });

  test("rejects a period with more than 10,000 events", async () => {
    const { path } = await addWebhook({ events: ["user.restored"] });
    const admin = await asAdmin();
    const day = "2019-03-01T00:00:00Z";
    await app.sql(
      `insert into audit_events (id, event, outcome, ip, user_agent, request_id, details, created_at)
       select (lpad(to_hex(extract(epoch from timestamptz '${day}')::bigint * 1000 + n), 12, '0') || '70008000000000000000')::uuid,
         'user.restored', 'success', '10.0.0.1', 'x', 'x', '{}', timestamptz '${day}' from generate_series(1, 10001) n`,
    );
    const period = { from: day, to: "2019-03-02T00:00:00Z" };
    expect(await admin.post(`${path}/replay`, period)).toMatchObject(invalid("from"));
    const shorter = { ...period, to: "2019-03-01T00:00:10.001Z" };
    expect(await admin.post(`${path}/replay`, shorter)).toMatchObject({
      ...{ status: 200, body: { queued: 10_000 } },
    });
  });
});

describe("/admin/webhooks", () => {
  test("require a sign-in within the last hour for changes, and are 404 for unknown webhooks", async () => {
    const { id } = await addWebhook();
    const { browser } = await app.signInAdmin();
    const absent = uuid();
    const writes = (target: string): [string, string, object?][] => [
      ["POST", "/admin/webhooks", form()],
      ["PUT", `/admin/webhooks/${target}`, { description: "x" }],
      ["DELETE", `/admin/webhooks/${target}`],
      ["POST", `/admin/webhooks/${target}/rotate-secret`, {}],
      ["POST", `/admin/webhooks/${target}/test`, {}],
      ["POST", `/admin/webhooks/${target}/replay`, { from: "2020-01-01T00:00:00Z" }],
      ["POST", `/admin/webhook-deliveries/${target}/retry`, {}],
    ];
    const admin = await asAdmin();
    for (const [verb, path, body] of writes(absent).slice(1))
      expect(
        await admin.browser.send(verb, path, body, {
          authorization: `Bearer ${admin.accessToken}`,
        }),
      ).toMatchObject(refusal(404, "NOT_FOUND"));
    app.clock.advance("61m");
    const { accessToken } = (await browser.post("/auth/refresh")).body;
    const authorization = `Bearer ${accessToken}`;
    for (const [verb, path, body] of writes(id))
      expect(await browser.send(verb, path, body, { authorization })).toMatchObject(
        refusal(403, "REAUTHENTICATION_REQUIRED"),
      );
    const { get } = withToken(browser, accessToken);
    expect((await get("/admin/webhooks")).status).toBe(200);
    expect((await get("/admin/webhook-deliveries")).status).toBe(200);
  });

  test("list deliveries page by page, and filter them", async () => {
    const { id, path, endpoint, deliveries } = await addWebhook({}, status(204));
    const admin = await asAdmin();
    for (let i = 0; i < 5; i++) await admin.post(`${path}/test`, {});
    await endpoint.until("webhook.test", undefined, 5);
    const ids = (await deliveries()).map((each: { id: string }) => each.id);
    expect(ids).toHaveLength(5);
    const list = async (query: string) =>
      (await admin.get(`/admin/webhook-deliveries?webhookId=${id}&${query}`)).body;
    const first = await list("limit=2");
    expect(first).toMatchObject({ total: 5, items: [{ id: ids[0] }, { id: ids[1] }] });
    const second = await list(`limit=2&cursor=${first.nextCursor}`);
    expect(second.items.map((each: { id: string }) => each.id)).toEqual(ids.slice(2, 4));
    expect((await list("limit=2&page=3")).items).toMatchObject([{ id: ids[4] }]);
    expect(await list("event=auth.login")).toMatchObject({ total: 0, items: [] });
    for (const bad of ["status=other", "limit=0", "webhookId=x", "page=1&cursor=x"])
      expect((await admin.get(`/admin/webhook-deliveries?${bad}`)).status).toBe(400);
    const upper = await admin.get(`/admin/webhook-deliveries?webhookId=${id.toUpperCase()}`);
    expect(upper.body.total).toBe(5);
  });
});
