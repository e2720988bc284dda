// Webhooks where gateways and services are processes of their own, and two of each share the queue.

import { expect, test } from "vitest";
import { accountsAt, PASSWORD, type SignedIn } from "../support/accounts.ts";
import { createDatabase, runSql } from "../support/database/databases.ts";
import { smtpMailbox } from "../support/mail/mailbox.ts";
import { sharedVariables, startApart } from "../support/processes/processes.ts";
import { describeIf, forSuite, forTest } from "../support/suites.ts";
import { times } from "../support/tally.ts";
import { until } from "../support/until.ts";
import {
  type Answer,
  expectSigned,
  type Received,
  startEndpoint,
  status,
  WEBHOOK_ENV,
} from "../support/webhooks.ts";

const ADMIN = { email: "root@example.com", password: PASSWORD };

describeIf(process.env.TEST_SERVERS, "Webhooks of two gateways and two services", async () => {
  const mail = await forSuite(smtpMailbox());
  const env = {
    ...sharedVariables(),
    ...WEBHOOK_ENV,
    DATABASE_URL: await createDatabase(),
    SMTP_URL: mail.url,
    RATE_LIMITS: "off",
    ADMIN_REAUTH: "0",
    ADMIN_EMAIL: ADMIN.email,
    ADMIN_PASSWORD: ADMIN.password,
  };
  const pairs = [await forSuite(startApart(env))]; // alone, since it migrates
  pairs.push(await forSuite(startApart(env)));
  const sql = <T>(text: string, values: unknown[] = []) =>
    runSql<T>(env.DATABASE_URL, text, values);
  const accounts = () => pairs.map(({ gateway }) => accountsAt(gateway.url));
  const asAdmin = (i = 0) =>
    accounts()[i]?.signIn({
      id: "",
      name: "Root",
      ...ADMIN,
      credentials: ADMIN,
    }) as Promise<SignedIn>;

  /** Registers accounts at both gateways by turns, and returns their ids. */
  const register = async (count: number) => {
    const users = await Promise.all(times(count, (i) => accounts()[i % pairs.length]?.addUser()));
    return users.map((user) => user?.id as string);
  };

  /** An endpoint and its webhook for registrations. */
  async function addWebhook(answer?: Answer) {
    const endpoint = await forTest(startEndpoint(answer));
    const { post } = await asAdmin();
    const form = { url: endpoint.url, events: ["auth.register"], description: "CRM" };
    const { status: created, body } = await post("/admin/webhooks", form);
    expect(created).toBe(201);
    const id: string = body.webhook.id;
    await forTest({ close: () => sql("delete from webhooks where id = $1", [id]) });
    return { id, endpoint, secret: body.secret as string, path: `/admin/webhooks/${id}` };
  }
  const usersOf = (received: Received[]) => received.map(({ event }) => event.data.userId);
  const untilReceived = (received: Received[], ids: string[]) =>
    until("each registration", () => ids.every((id) => usersOf(received).includes(id)));

  test("deliver each event once and signed, without delay by a silent or failing endpoint", async () => {
    let [open, most] = [0, 0];
    const silent = await addWebhook((response) => {
      most = Math.max(most, ++open);
      response.on("close", () => open--);
    });
    const failing = await addWebhook(status(500));
    const { endpoint, secret, id } = await addWebhook();
    const ids = await register(40);
    await untilReceived(endpoint.received, ids);
    const answered =
      "select 1 from webhook_deliveries where webhook_id = $1 and status = 'delivered'";
    expect(await sql(answered, [silent.id])).toEqual([]);
    expect(failing.endpoint.received.length).toBeGreaterThan(0);
    await until("the records", async () => (await sql(answered, [id])).length === ids.length);
    expect(usersOf(endpoint.received).sort()).toEqual(ids.sort()); // each once
    for (const each of endpoint.received) expectSigned(each, secret);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(2 * 10); // places of a webhook in each process
  });

  test("sign with both secrets after a rotation at either process, and with the latest two after another", async () => {
    const { endpoint, secret: first, path, id } = await addWebhook();
    const rotate = async (i: number) =>
      (await (await asAdmin(i)).post(`${path}/rotate-secret`)).body.secret as string;
    const second = await rotate(0);
    await untilReceived(endpoint.received, await register(6));
    for (const each of endpoint.received.splice(0)) expectSigned(each, second, first);
    const third = await rotate(1);
    await untilReceived(endpoint.received, await register(6));
    for (const each of endpoint.received.splice(0)) expectSigned(each, third, second);
    await sql("update webhooks set previous_until = now() where id = $1", [id]); // 24 hours later
    await untilReceived(endpoint.received, await register(6));
    for (const each of endpoint.received.splice(0)) expectSigned(each, third);
  });

  test.for([
    { how: "five days without a success", code: 500, reason: "failing" },
    { how: "status 410", code: 410, reason: "gone" },
  ])(
    "are turned off once by $how, with one e-mail, whichever processes detect it",
    async ({ code, reason }) => {
      const { id } = await addWebhook(status(code));
      const other = await addWebhook();
      await sql("update webhooks set failing_since = now() - interval '5 days' where id = $1", [
        id,
      ]);
      const told = async () =>
        (await mail.emailsTo(ADMIN.email)).filter(({ subject }) =>
          /turned off/.test(subject ?? ""),
        );
      const before = (await told()).length;
      const ids = await register(30);
      await untilReceived(other.endpoint.received, ids);
      const off = await until("the end", async () => {
        const disabled =
          "select disabled_reason from webhooks where id = $1 and disabled_at is not null";
        return (await sql<{ disabled_reason: string }>(disabled, [id]))[0];
      });
      expect(off.disabled_reason).toBe(reason);
      await until("the end of its queue", async () => {
        const waiting =
          "select 1 from webhook_deliveries where webhook_id = $1 and next_attempt_at is not null";
        return (await sql(waiting, [id])).length === 0;
      });
      const changes =
        "select 1 from audit_events where event = 'admin.webhook_changed' and details->>'id' = $1 and details->>'change' = 'disabled'";
      expect(await sql(changes, [id])).toHaveLength(1);
      const queued =
        "select 1 from emails where template = 'webhook-disabled' and status <> 'sent'";
      await until("the e-mail", async () => (await sql(queued)).length === 0);
      expect((await told()).length).toBe(before + 1);
      const failed =
        "select 1 from webhook_deliveries where webhook_id = $1 and status <> 'delivered'";
      await until("the others", async () => (await sql(failed, [other.id])).length === 0);
    },
  );

  test("are delivered by another process, with the same id, after SIGKILL during a delivery", async () => {
    const { endpoint, id } = await addWebhook(() => {}); // holds every request
    const [userId] = await register(1);
    await until("the first attempt", () => endpoint.received.length > 0);
    endpoint.answer = status(204);
    const killed = pairs.splice(0, 2);
    await Promise.all(killed.map(({ services }) => services.end("SIGKILL"))); // whichever has it
    pairs.push(await forTest(startApart(env)));
    const [first, second] = await until("the second attempt", () =>
      endpoint.received.length > 1 ? endpoint.received : undefined,
    );
    expect([first?.id, first?.event.data.userId]).toEqual([second?.id, userId]);
    await until("the record", async () => {
      const delivered =
        "select attempts from webhook_deliveries where webhook_id = $1 and status = 'delivered'";
      const [row] = await sql<{ attempts: number }>(delivered, [id]);
      return row?.attempts === 2;
    });
    expect(endpoint.received).toHaveLength(2);
  });
});
