import { describe, expect, test } from "vitest";
import { accountsAt, PASSWORD } from "../support/accounts.ts";
import { createDatabase, runSql } from "../support/database/databases.ts";
import { postJson } from "../support/http/client.ts";
import { type Process, sharedVariables, startProcess } from "../support/processes/processes.ts";
import { forTest } from "../support/suites.ts";
import { times } from "../support/tally.ts";
import { until } from "../support/until.ts";
import { startEndpoint, WEBHOOK_ENV } from "../support/webhooks.ts";

/** Registrations, and how many processes are killed in the meantime. An ordinary run has few. */
const [REGISTRATIONS, KILLS] = process.env.TEST_FULL ? [500, 12] : [30, 1];
const ADMIN = { email: "root@example.com", password: PASSWORD };

describe.runIf(process.env.TEST_SERVERS)("Webhooks of several processes", () => {
  test(`deliver each registration at least once, even if processes are killed at any time (registrations: ${REGISTRATIONS}, kills: ${KILLS})`, async () => {
    const env = {
      ...sharedVariables(),
      ...WEBHOOK_ENV,
      DATABASE_URL: await createDatabase(),
      RATE_LIMITS: "off",
      ADMIN_EMAIL: ADMIN.email,
      ADMIN_PASSWORD: ADMIN.password,
    };
    const endpoint = await forTest(startEndpoint());
    const running: Process[] = [];
    await forTest({ close: () => Promise.all(running.map((each) => each.close())) });
    running.push(await startProcess(env)); // alone, since it migrates
    running.push(...(await Promise.all(times(2, () => startProcess(env)))));
    const [first] = running as [Process];
    const { body } = await accountsAt(first.url)
      .signIn({ id: "", name: "Root", ...ADMIN, credentials: ADMIN })
      .then(({ post }) =>
        post("/admin/webhooks", { url: endpoint.url, events: ["auth.register"] }),
      );
    const webhookId: string = body.webhook.id;

    const registered: string[] = [];
    let attempts = 0;
    const isDone = () => registered.length >= REGISTRATIONS;
    /** Registers new accounts at one process after the other, also while some of them are dead. */
    async function register(): Promise<void> {
      while (!isDone()) {
        const { url } = running[attempts++ % running.length] as Process;
        const account = { email: `${attempts}.${Date.now()}@example.com`, password: PASSWORD };
        const form = { ...account, name: "Ann", acceptTerms: true };
        const answer = await postJson(`${url}/auth/register`, form).catch(() => undefined);
        const body =
          answer?.status === 201 ? await answer.json().catch(() => undefined) : undefined;
        if (body) registered.push((body as { userId: string }).userId);
      }
    }
    async function kill(): Promise<void> {
      for (let i = 0; i < KILLS && !isDone(); i++) {
        const before = registered.length;
        await until("a registration", () => registered.length > before || isDone());
        const victim = i % running.length;
        await running[victim]?.end("SIGKILL");
        running[victim] = await startProcess(env);
      }
    }
    await Promise.all([kill(), ...times(6, register)]);

    const events = await runSql<{ id: string; user_id: string }>(
      env.DATABASE_URL,
      "select id, user_id from audit_events where event = 'auth.register'",
    );
    const userOf = new Map(events.map((event) => [event.id, event.user_id]));
    for (const userId of registered) expect([...userOf.values()]).toContain(userId);
    await until("the event of each registration", () => {
      const received = new Set(endpoint.received.map(({ id }) => userOf.get(id)));
      return registered.every((userId) => received.has(userId));
    });
    for (const { id, event } of endpoint.received) {
      expect(event.type).toBe("auth.register");
      expect(event.data.userId).toBe(userOf.get(id)); // of no transaction that was rolled back
    }
    await until("the end of the queue", async () => {
      const waiting = await runSql(
        env.DATABASE_URL,
        "select 1 from webhook_deliveries where webhook_id = $1 and status <> 'delivered' limit 1",
        [webhookId],
      );
      return waiting.length === 0;
    });
    const twice = await runSql(
      env.DATABASE_URL,
      "select event_id from webhook_deliveries group by event_id having count(*) > 1",
    );
    expect(twice).toEqual([]);
  }, 600_000);
});
