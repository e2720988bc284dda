import ms, { type StringValue } from "ms";
import { v7 as uuid } from "uuid";
import { describe, expect, onTestFinished, test } from "vitest";
import { createCipher } from "../../../services/crypto/cipher.ts";
import type { QueueTimes } from "../../../services/jobs/queue.ts";
import { createRenderEmail } from "../../../services/mail/templates.ts";
import { createMailTransport } from "../../../services/mail/transport.ts";
import { startMailWorker } from "../../../services/mail/worker.ts";
import { requireConfig } from "../../../services/platform/config/config.ts";
import type { Store } from "../../../services/store/store.ts";
import { createClock } from "../../support/clock.ts";
import { ENGINES, openMigratedStore } from "../../support/database/engines.ts";
import { captureLog } from "../../support/log.ts";
import { startSlowSmtpServer } from "../../support/mail/slow-smtp-server.ts";
import { forSuite, forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const TIMES: QueueTimes = {
  slowMs: 200,
  leaseMs: 3_000,
  extendMs: 100,
  itemMs: 60_000,
  closeMs: 5_000,
};

type Row = { to: string; status: string; attempts: number; due: boolean };

describe.each(ENGINES)("Mail worker, %s", async (engine) => {
  const store = await forSuite(openMigratedStore(engine));
  const sql = <T>(text: string, values: unknown[] = []) => store.fork().execute<T[]>(text, values);

  /** A queue, and an SMTP server that takes its time. */
  async function open(delayMs: (to: string) => number) {
    const server = await forTest(
      startSlowSmtpServer({ delayMs: (step, to) => (step === "dot" ? delayMs(to) : 0) }),
    );
    await sql("delete from emails");
    const queue = (to: string) =>
      sql(
        `insert into emails (id, "to", template, facts, status, created_at, next_attempt_at)
           values (?, ?, 'password-changed', '{}', 'queued', now(), now() - interval '1 day')`,
        [uuid(), to],
      );
    const rows = () =>
      sql<Row>(
        `select "to", status, attempts, coalesce(next_attempt_at <= now(), false) as due from emails order by "to"`,
      );
    /** Starts the mail worker of a process that has a clock of its own. */
    const start = (
      given: Partial<QueueTimes> = {},
      { ahead = "0s" as StringValue, by = store as Store } = {},
    ) => {
      const config = requireConfig({ SMTP_URL: server.url, MAIL_RETRY_BASE: "1h" });
      const { log } = captureLog();
      const clock = createClock();
      if (ms(ahead) !== 0) clock.advance(ahead);
      const sender = createMailTransport(config, log);
      const cipher = createCipher(Buffer.alloc(32));
      const worker = startMailWorker(
        {
          store: by,
          sender,
          cipher,
          clock,
          agreedTime: { read: async () => clock.now() },
          config,
          renderEmail: createRenderEmail(config),
          log,
          countEmail: () => {},
        },
        { ...TIMES, ...given },
      );
      onTestFinished(async () => {
        await worker.close();
        sender.close();
      });
      return { ...worker, clock };
    };
    const sentTo = (to: string) =>
      until(`the mail to ${to}`, async () =>
        (await rows()).find((row) => row.to === to && row.status === "sent"),
      );
    const copies = (to: string) => server.received.filter((mail) => mail.to === to).length;
    return { server, queue, rows, start, sentTo, copies };
  }

  test("a delivery longer than many leases sends one copy, whatever the clocks of other workers", async () => {
    const { queue, start, sentTo, copies } = await open(() => 8_000);
    const first = start();
    await queue("slow@example.com");
    first.wake();
    await until("the copy", () => copies("slow@example.com") === 1);
    for (const ahead of ["0s", "1h", "440d", "-1h"] as const) start({}, { ahead });
    first.clock.advance("1d");
    expect(await sentTo("slow@example.com")).toMatchObject({ attempts: 1 });
    expect(copies("slow@example.com")).toBe(1);
  });

  test("a worker whose leases were not extended does not send the same e-mail twice", async () => {
    const { queue, start, sentTo, copies } = await open(() => 2_500);
    const worker = start({ leaseMs: 300, extendMs: 3_600_000 });
    await queue("slow@example.com");
    worker.wake();
    expect(await sentTo("slow@example.com")).toMatchObject({ attempts: 1 });
    expect(copies("slow@example.com")).toBe(1);
  });

  test("the e-mails of a crashed worker are sent by others after a lease", async () => {
    const { queue, rows, start, sentTo, copies, server } = await open(() => 60_000);
    const never = start({ extendMs: 3_600_000, closeMs: 0 });
    await queue("left@example.com");
    never.wake();
    await until("the first copy", () => copies("left@example.com") === 1);
    server.rules.delayMs = () => 0;
    expect(await rows()).toMatchObject([{ status: "sending", attempts: 1 }]);
    start();
    expect(await sentTo("left@example.com")).toMatchObject({ attempts: 2 });
    const ids = server.received.map(({ messageId }) => messageId);
    expect(ids[1]).toBe(ids[0]);
  });

  test("30 hanging deliveries delay no other", async () => {
    const { queue, start, sentTo, rows, server } = await open((to) =>
      to.startsWith("stuck") ? 600_000 : 0,
    );
    const worker = start({ closeMs: 0 });
    await Promise.all(times(30, (i) => queue(`stuck.${i}@example.com`)));
    worker.wake();
    await until("all to hang", () => server.received.length === 30);
    await queue("other@example.com");
    worker.wake();
    expect(await sentTo("other@example.com")).toMatchObject({ attempts: 1 });
    const states = (await rows()).filter(({ to }) => to.startsWith("stuck"));
    expect(new Set(states.map(({ status, attempts }) => `${status} ${attempts}`))).toEqual(
      new Set(["sending 1"]),
    );
  });

  test("closing finishes a delivery in progress", async () => {
    const { queue, start, rows, copies } = await open(() => 1_000);
    const worker = start();
    await queue("last@example.com");
    worker.wake();
    await until("the copy", () => copies("last@example.com") === 1);
    await worker.close();
    expect(await rows()).toMatchObject([{ status: "sent", attempts: 1 }]);
  });

  test("closing aborts a hanging delivery, and the next worker sends it immediately", async () => {
    const { queue, start, rows, sentTo, server } = await open(() => 600_000);
    const worker = start({ closeMs: 200 });
    await queue("last@example.com");
    worker.wake();
    await until("the copy", () => server.received.length === 1);
    const startedAt = performance.now();
    await worker.close();
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    expect(await rows()).toMatchObject([{ status: "queued", attempts: 1, due: true }]);
    server.rules.delayMs = () => 0;
    start();
    expect(await sentTo("last@example.com")).toMatchObject({ attempts: 2 });
    const ids = server.received.map(({ messageId }) => messageId);
    expect(ids).toEqual([ids[0], ids[0]]);
  });

  test("an e-mail accepted while the database fails is recorded later, and not sent again", async () => {
    const { queue, start, sentTo, copies } = await open(() => 100);
    let failures = 0;
    const fork = () => {
      const em = store.fork();
      if (copies("kept@example.com") === 0 || failures === 2) return em;
      failures++;
      return Object.assign(em, { nativeUpdate: () => Promise.reject(new Error("away")) });
    };
    const worker = start({}, { by: { ...store, fork } });
    await queue("kept@example.com");
    worker.wake();
    expect(await sentTo("kept@example.com")).toMatchObject({ attempts: 1 });
    expect(failures).toBe(2);
    expect(copies("kept@example.com")).toBe(1);
  });
});
