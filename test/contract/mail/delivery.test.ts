import { v7 as uuid } from "uuid";
import { expect, test } from "vitest";
import { describeConcurrent } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";
import { BASE_MS, modes, openMailFixture, type Row } from "./fixture.ts";

const GREYLISTED = { code: 451, text: "Greylisted" };

describeConcurrent(modes, "Mail delivery, %s", async (mode) => {
  const mail = await openMailFixture(mode);
  const { app, register, rowOf, receivedFor, refuse, accept } = mail;
  /** Queues an e-mail that no account has requested. */
  const queue = (to: string, template: string, at: Date) =>
    app.sql(
      `insert into emails (id, "to", template, facts, status, created_at, next_attempt_at)
       values (?, ?, ?, '{}', 'queued', ?, ?)`,
      [uuid(), to, template, at, at],
    );
  const delayOf = (row: Row) =>
    new Date(row.next_attempt_at ?? 0).getTime() - app.clock.now().getTime();

  test.each([421, 451, 999])(
    "retries after a %i with growing, jittered delays until it is accepted",
    async (code) => {
      refuse("busy", { code, text: "Try again later" });
      const emails = await Promise.all(times(5, () => register("busy")));
      for (const attempt of [1, 2, 3]) {
        const rows = await Promise.all(
          emails.map((email) =>
            rowOf(email, (row) => row.status === "queued" && row.attempts === attempt),
          ),
        );
        const delays = rows.map(delayOf);
        const expected = BASE_MS * 2 ** (attempt - 1);
        for (const delay of delays) {
          expect(delay).toBeGreaterThan(expected * 0.75 - 5_000);
          expect(delay).toBeLessThan(expected * 1.25);
        }
        expect(new Set(delays.map((delay) => Math.round(delay / 1_000))).size).toBeGreaterThan(1);
        expect(rows[0]?.last_error).toContain("Try again later");
        if (attempt === 3) accept();
        app.clock.advance("55m");
      }
      for (const email of emails) {
        const { id } = await rowOf(email, (row) => row.status === "sent" && row.attempts === 4);
        const [received, ...others] = receivedFor(email);
        expect(others).toEqual([]);
        expect(received?.raw).toMatch(
          new RegExp(`^message-id: <${id}@xn--bcher-kva\\.example>`, "im"),
        ); // the same id at every attempt
        const from = "=?UTF-8?Q?Acme=3A_Gr=C3=B6=C3=9Fe?= <no-reply@xn--bcher-kva.example>";
        expect(received?.raw.replaceAll("\r\n ", " ")).toContain(`\r\nFrom: ${from}\r\n`);
        expect(received?.raw).toMatch(/^auto-submitted: auto-generated\r$/im);
      }
    },
  );

  test("a rejected sender delays the e-mail instead of failing it", async () => {
    mail.smtpServer.responses.mail = () => ({ code: 550, text: "Sender rejected" });
    const email = await register("delayed");
    const row = await rowOf(
      email,
      ({ status, attempts }) => status !== "sending" && attempts === 1,
    );
    expect(row).toMatchObject({ status: "queued", last_error: "550 Sender rejected" });
    const weekAgo = new Date(app.clock.now().getTime() - 8 * 86_400_000);
    await queue("given-up@example.com", "password-changed", weekAgo);
    await rowOf("given-up@example.com", ({ status }) => status === "failed");
    mail.smtpServer.responses.mail = () => "accept";
    app.clock.advance("15m");
    await rowOf(email, ({ status }) => status === "sent");
  });

  test.each([
    { code: 500, text: "Command not recognized" },
    { code: 503, text: "Bad sequence of commands" },
    { code: 521, text: "Host does not accept mail" },
    { code: 530, text: "5.7.0 Authentication required" },
    { code: 535, text: "5.7.8 Authentication failed" },
  ])(
    "a $code reply to recipient or message, which is about the session, delays the e-mail",
    async (reply) => {
      const accepts = mail.smtpServer.responses.data;
      mail.smtpServer.responses.data = ({ to }) => (to.startsWith("message") ? reply : "accept");
      refuse("recipient", reply);
      const emails = await Promise.all([register("recipient"), register("message")]);
      for (const email of emails) {
        const row = await rowOf(
          email,
          ({ status, attempts }) => status !== "sending" && attempts === 1,
        );
        const { code, text } = reply;
        expect(row).toMatchObject({ status: "queued", last_error: `${code} ${text}` });
      }
      accept();
      mail.smtpServer.responses.data = accepts;
      app.clock.advance("15m");
      for (const email of emails) await rowOf(email, ({ status }) => status === "sent");
    },
  );

  test("gives up an e-mail that has been deferred for a day", async () => {
    refuse("never", GREYLISTED);
    const email = await register("never");
    await rowOf(email, (row) => row.attempts === 1 && row.status === "queued");
    app.clock.advance("25h");
    await rowOf(email, (row) => row.attempts === 2 && row.status === "failed");
  });

  test("drops an e-mail whose link expired while it waited", async () => {
    const email = await register("forgetful");
    await rowOf(email, (row) => row.status === "sent");
    const ofResets = `select * from emails where "to" = ? and template = 'reset-password' and status = ? order by id`;
    const resets = (status: string) => app.sql<Row>(ofResets, [email, status]);
    const put = (count: number) =>
      until("the mail to be deferred", async () => {
        const waiting = await resets("queued");
        return waiting.length === count && waiting.every(({ attempts }) => attempts === 1);
      });
    refuse(email, GREYLISTED);
    await app.httpClient().post("/auth/forgot-password", { email });
    await put(1);
    app.clock.advance("5m");
    await app.httpClient().post("/auth/forgot-password", { email }); // replaces the previous one
    await put(2);
    accept();
    app.clock.advance("20m");
    await expect
      .poll(() => resets("failed"))
      .toMatchObject([{ last_error: expect.stringContaining("link") }]);
    await until("the newer mail", async () => (await resets("sent")).length === 1);
    expect(receivedFor(email)).toHaveLength(2);

    refuse(email, GREYLISTED);
    await app.httpClient().post("/auth/forgot-password", { email });
    await put(1);
    accept();
    app.clock.advance("1h");
    await until("the late mail to fail", async () => (await resets("failed")).length === 2);
    expect(receivedFor(email)).toHaveLength(2);
  });

  test("an e-mail that hangs or cannot be written delays no other", async () => {
    refuse("stuck", "hang");
    const stuck = await Promise.all(times(3, () => register("stuck")));
    await queue("poison@example.com", "no-such-template", new Date(0));
    await until("attempts of the stuck mails", () =>
      mail.smtpServer.tries.includes(stuck[2] ?? ""),
    );
    const { next_attempt_at: lease } = await rowOf(stuck[2] ?? "", () => true);
    const started = performance.now();
    const others = await Promise.all(times(12, () => register("other")));
    for (const email of others) await rowOf(email, (row) => row.status === "sent");
    expect(performance.now() - started).toBeLessThan(8_000); // a mail that hangs takes 10 minutes
    const renewed = await rowOf(stuck[2] ?? "", (row) => row.next_attempt_at !== lease);
    expect(renewed).toMatchObject({ status: "sending", attempts: 1 }); // no other worker takes it
    await rowOf("poison@example.com", (row) => row.attempts >= 1 && row.status !== "sending");
  });

  test("an outage of 24 hours loses no e-mail, and sends none twice", async () => {
    await mail.smtpServer.close();
    const emails = await Promise.all(times(5, () => register("waiting")));
    for (let hours = 0; hours < 24; hours += 6) {
      for (const email of emails)
        await rowOf(email, (row) => row.status === "queued" && row.attempts > hours / 6);
      app.clock.advance("6h");
    }
    for (const email of emails)
      await rowOf(email, (row) => row.status === "queued" && row.attempts > 4);
    await mail.reopen();
    app.clock.advance("75m"); // the longest delay with its jitter
    for (const email of emails) {
      await rowOf(email, (row) => row.status === "sent");
      expect(receivedFor(email)).toHaveLength(1);
    }
  });
});
