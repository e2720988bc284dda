import { randomUUID } from "node:crypto";
import { v7 as uuid } from "uuid";
import { afterAll, describe, expect, test } from "vitest";
import { signInAdmin } from "../admin/support.ts";
import { startApp } from "../app.ts";
import { times, until } from "../until.ts";
import { startSink } from "./sink.ts";

const BASE_MS = 600_000;
const modes = process.env.TEST_SERVERS ? (["embedded", "servers"] as const) : (["embedded"] as const);

type Row = { id: string; status: string; attempts: number; last_error: string | null; next_attempt_at: string | null };

describe.each(modes)("mail delivery, %s", async (mode) => {
  let sink = await startSink();
  const { port, url } = sink;
  const lastingLinks = { VERIFY_TOKEN_TTL: "7d" }; // for longer than any outage here
  const MAIL_FROM = "Acme: Größe <no-reply@bücher.example>";
  const env = { SMTP_URL: url, MAIL_FROM, MAIL_RETRY_BASE: `${BASE_MS / 60_000}m`, ...lastingLinks };
  const app = await startApp({ mode, env });
  afterAll(async () => {
    await app.close();
    await sink.close();
  });

  /** Registers somebody, whose letter of welcome is the one to look at. */
  const register = async (kind: string) => (await app.addUser({ email: `${kind}.${randomUUID()}@example.com` })).email;

  const rowOf = (email: string, is: (row: Row) => boolean) =>
    until(`the letter to ${email}`, async () => {
      const [row] = await app.sql<Row>(
        `select id, status, attempts, last_error, next_attempt_at from emails where "to" = ?`,
        [email],
      );
      return row && is(row) ? row : undefined;
    });
  const arrivedFor = (email: string) => sink.arrived.filter(({ to }) => to === email);
  const delayOf = (row: Row) => new Date(row.next_attempt_at ?? 0).getTime() - app.clock.now().getTime();

  test.each([421, 451])("tries again after a %i, ever later and never at one time, until it is taken", async (code) => {
    sink.moods.rcpt = (to) => (to.startsWith("busy") ? { code, text: "Try again later" } : "take");
    const emails = await Promise.all(times(5, () => register("busy")));
    for (const attempt of [1, 2, 3]) {
      const rows = await Promise.all(
        emails.map((email) => rowOf(email, (row) => row.status === "queued" && row.attempts === attempt)),
      );
      const delays = rows.map(delayOf);
      const expected = BASE_MS * 2 ** (attempt - 1);
      for (const delay of delays) {
        expect(delay).toBeGreaterThan(expected * 0.75 - 5_000);
        expect(delay).toBeLessThan(expected * 1.25);
      }
      expect(new Set(delays.map((delay) => Math.round(delay / 1_000))).size).toBeGreaterThan(1);
      expect(rows[0]?.last_error).toContain("Try again later");
      if (attempt === 3) sink.moods.rcpt = () => "take";
      app.clock.advance("55m");
    }
    for (const email of emails) {
      const { id } = await rowOf(email, (row) => row.status === "sent" && row.attempts === 4);
      expect(arrivedFor(email)).toHaveLength(1);
      expect(arrivedFor(email)[0]?.raw).toMatch(new RegExp(`^message-id: <${id}@xn--bcher-kva\\.example>`, "im")); // with every try
      const from = "=?UTF-8?Q?Acme=3A_Gr=C3=B6=C3=9Fe?= <no-reply@xn--bcher-kva.example>";
      expect(arrivedFor(email)[0]?.raw.replaceAll("\r\n ", " ")).toContain(`\r\nFrom: ${from}\r\n`);
      expect(arrivedFor(email)[0]?.raw).toMatch(/^auto-submitted: auto-generated\r$/im);
    }
  });

  test("a 5xx ends it; an administrator can queue it again, and nothing but a failed one", async () => {
    sink.moods.rcpt = (to) => (to.startsWith("gone") ? { code: 550, text: "No such user" } : "take");
    const [gone, fine] = [await register("gone"), await register("fine")];
    const failed = await rowOf(gone, (row) => row.status === "failed");
    expect(failed).toMatchObject({ attempts: 1, next_attempt_at: null });
    const sent = await rowOf(fine, (row) => row.status === "sent");
    const admin = await signInAdmin(app);
    expect((await admin.post(`/admin/email-logs/${sent.id}/retry`)).status).toBe(409);
    expect((await admin.post(`/admin/email-logs/${uuid()}/retry`)).status).toBe(404);
    expect((await admin.post("/admin/email-logs/7/retry")).status).toBe(400);
    app.clock.advance("26h"); // long after it would have been given up
    sink.moods.rcpt = (to) => (to.startsWith("gone") ? { code: 451, text: "Greylisted" } : "take");
    const later = await signInAdmin(app, admin.user);
    expect((await later.post(`/admin/email-logs/${failed.id}/retry`)).status).toBe(200);
    await rowOf(gone, (row) => row.status === "queued" && row.attempts === 2);
    sink.moods.rcpt = () => "take";
    app.clock.advance("25m");
    await rowOf(gone, (row) => row.status === "sent" && row.attempts === 3);
    expect(arrivedFor(gone)).toHaveLength(1);
    const [event] = await app.sql(
      "select details from audit_events where event = 'admin.email_retried' and actor_id = ?",
      [admin.user.id],
    );
    expect(event).toEqual({ details: { emailId: failed.id } });
  });

  test("waits while its sender is refused: that is not about the letter", async () => {
    sink.moods.mail = () => ({ code: 550, text: "Sender rejected" });
    const email = await register("waiting");
    const row = await rowOf(email, ({ status, attempts }) => status !== "sending" && attempts === 1);
    expect(row).toMatchObject({ status: "queued", last_error: "550 Sender rejected" });
    const weekAgo = new Date(app.clock.now().getTime() - 8 * 86_400_000);
    await app.sql(
      `insert into emails (id, "to", template, facts, status, created_at, next_attempt_at)
       values (?, 'given-up@example.com', 'password-changed', '{}', 'queued', ?, ?)`,
      [uuid(), weekAgo, weekAgo],
    );
    await rowOf("given-up@example.com", ({ status }) => status === "failed");
    sink.moods.mail = () => "take";
    app.clock.advance("15m");
    await rowOf(email, ({ status }) => status === "sent");
  });

  test("is given up when it has been put off for a day", async () => {
    sink.moods.rcpt = (to) => (to.startsWith("never") ? { code: 451, text: "Greylisted" } : "take");
    const email = await register("never");
    await rowOf(email, (row) => row.attempts === 1 && row.status === "queued");
    app.clock.advance("25h");
    await rowOf(email, (row) => row.attempts === 2 && row.status === "failed");
    sink.moods.rcpt = () => "take";
  });

  test("a letter whose link has ended while it waited is not sent any more", async () => {
    const email = await register("forgetful");
    await rowOf(email, (row) => row.status === "sent");
    const resets = (status: string) =>
      app.sql<Row>(`select * from emails where "to" = ? and template = 'reset-password' and status = ? order by id`, [
        email,
        status,
      ]);
    const put = (count: number) =>
      until("the letter to be put off", async () => {
        const waiting = await resets("queued");
        return waiting.length === count && waiting.every(({ attempts }) => attempts === 1);
      });
    sink.moods.rcpt = (to) => (to === email ? { code: 451, text: "Greylisted" } : "take");
    await app.visitor().post("/auth/forgot-password", { email });
    await put(1);
    await app.visitor().post("/auth/forgot-password", { email }); // replaces the one before
    await put(2);
    sink.moods.rcpt = () => "take";
    app.clock.advance("20m");
    const [replaced] = await until("the older letter to be given up", async () => {
      const failed = await resets("failed");
      return failed.length === 1 ? failed : undefined;
    });
    expect(replaced?.last_error).toContain("link");
    await until("the newer letter", async () => (await resets("sent")).length === 1);
    expect(arrivedFor(email)).toHaveLength(2);

    sink.moods.rcpt = (to) => (to === email ? { code: 451, text: "Greylisted" } : "take");
    await app.visitor().post("/auth/forgot-password", { email });
    await put(1);
    sink.moods.rcpt = () => "take";
    app.clock.advance("1h");
    await until("the late letter to be given up", async () => (await resets("failed")).length === 2);
    expect(arrivedFor(email)).toHaveLength(2);
  });

  test("no letter waits for one that hangs, or for one that can't even be written", async () => {
    sink.moods.rcpt = (to) => (to.startsWith("stuck") ? "hang" : "take");
    const stuck = await Promise.all(times(3, () => register("stuck")));
    await app.sql(
      `insert into emails (id, "to", template, facts, status, created_at, next_attempt_at)
       values (?, 'poison@example.com', 'no-such-template', '{}', 'queued', ?, ?)`,
      [uuid(), new Date(0), new Date(0)],
    );
    await until("the stuck letters to be on their way", () => sink.tries.includes(stuck[2] ?? ""));
    const { next_attempt_at: lease } = await rowOf(stuck[2] ?? "", () => true);
    const started = performance.now();
    const others = await Promise.all(times(12, () => register("other")));
    for (const email of others) await rowOf(email, (row) => row.status === "sent");
    expect(performance.now() - started).toBeLessThan(8_000); // a hanging one takes 20 s
    const renewed = await rowOf(stuck[2] ?? "", (row) => row.next_attempt_at !== lease);
    expect(renewed).toMatchObject({ status: "sending", attempts: 1 }); // no other worker takes it up
    await rowOf("poison@example.com", (row) => row.attempts >= 1 && row.status !== "sending");
    sink.moods.rcpt = () => "take";
  });

  test("an outage of 24 hours loses nothing, and sends nothing twice", async () => {
    await sink.close();
    const emails = await Promise.all(times(5, () => register("patient")));
    for (let hours = 0; hours < 24; hours += 6) {
      for (const email of emails) await rowOf(email, (row) => row.status === "queued" && row.attempts > hours / 6);
      app.clock.advance("6h");
    }
    for (const email of emails) await rowOf(email, (row) => row.status === "queued" && row.attempts > 4);
    sink = await startSink(port);
    app.clock.advance("75m"); // the longest pause, with its jitter
    for (const email of emails) {
      await rowOf(email, (row) => row.status === "sent");
      expect(arrivedFor(email)).toHaveLength(1);
    }
  });

  test.each([
    ["one line", (quote: string) => `5.7.1 Looks like spam: ${quote}`],
    ["many lines", (quote: string) => ["5.7.1 Looks like spam:", ...quote.split("\r\n")]],
  ])("an answer that quotes the letter in %s is told without a piece of its token", async (_form, answer) => {
    let token = "";
    sink.moods.data = ({ to, raw }) => {
      if (!to.startsWith("cut")) return "take";
      const [quote = ""] = /#token=3D(?:[\w-]|=\r\n){43,}/.exec(raw) ?? [];
      expect(quote).toContain("=\r\n");
      token = quote.replace("#token=3D", "").replaceAll("=\r\n", "");
      return { code: 554, text: answer(quote) };
    };
    const { last_error } = await rowOf(await register("cut"), ({ status }) => status === "failed");
    expect(token).toHaveLength(43);
    const told = [last_error, ...app.logs].join("\n");
    expect(times(36, (i) => token.slice(i, i + 8)).filter((piece) => told.includes(piece))).toEqual([]);
    expect(last_error).toMatch(/^554 .*Looks like spam:/);
    sink.moods.data = () => "take";
  });

  test("the log shows every letter and its attempts, by each filter, and never a token or a text", async () => {
    sink.moods.rcpt = () => "take";
    sink.moods.data = ({ to, raw }) =>
      to.startsWith("quoted") ? { code: 554, text: `Spam: ${raw.slice(0, 2_000)}` } : "take";
    const user = await app.addUser({ email: `Quoted.${randomUUID()}@example.com`.replace("Quoted", "quoted") });
    const row = await rowOf(user.email, ({ status }) => status === "failed");
    const admin = await signInAdmin(app);
    const { status, body } = await admin.get(`/admin/email-logs?userId=${user.id}`);
    expect(status).toBe(200);
    expect(body).toEqual({
      items: [
        {
          id: row.id,
          userId: user.id,
          to: user.email,
          template: "verify-email",
          status: "failed",
          attempts: 1,
          lastError: expect.stringContaining("Spam"),
          createdAt: expect.stringMatching(/Z$/),
        },
      ],
      total: 1,
    });
    expect(JSON.stringify(body)).not.toMatch(/[\w-]{40,}/);
    const find = async (query: string) => (await admin.get(`/admin/email-logs?${query}`)).body;
    expect((await find(`to=${user.email.toUpperCase()}`)).total).toBe(1);
    expect((await find(`to=${user.email}&status=sent`)).total).toBe(0);
    expect((await find(`to=${user.email}&status=failed&template=verify-email`)).total).toBe(1);
    expect((await find(`to=${user.email}&template=reset-password`)).total).toBe(0);
    const sent = (await find("status=sent&limit=1")) as { items: Record<string, unknown>[]; nextCursor: string };
    expect(sent.items[0]).toMatchObject({ status: "sent", sentAt: expect.stringMatching(/Z$/) });
    expect(sent.items[0]).not.toHaveProperty("nextAttemptAt");
    expect((await find(`status=sent&limit=1&cursor=${sent.nextCursor}`)).items[0].id).not.toBe(sent.items[0]?.id);
    expect((await admin.get("/admin/email-logs?status=lost")).status).toBe(400);
    sink.moods.data = () => "take";
  });
});
