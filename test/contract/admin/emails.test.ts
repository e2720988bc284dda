import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { refusal, TIME } from "../../support/http/responses.ts";
import { times } from "../../support/tally.ts";
import { modes, openMailFixture } from "../mail/fixture.ts";

describe.each(modes)("E-mails of administrators, %s", async (mode) => {
  const mail = await openMailFixture(mode);
  const { app, register, rowOf, receivedFor, refuse, accept } = mail;

  test("POST /admin/email-logs/:id/retry: requeues only failed e-mails", async () => {
    refuse("gone", { code: 550, text: "No such user" });
    const [gone, fine] = [await register("gone"), await register("fine")];
    const failed = await rowOf(gone, (row) => row.status === "failed");
    expect(failed).toMatchObject({ attempts: 1, next_attempt_at: null });
    const sent = await rowOf(fine, (row) => row.status === "sent");
    const admin = await app.signInAdmin();
    expect((await admin.post(`/admin/email-logs/${sent.id}/retry`)).status).toBe(409);
    app.clock.advance("26h"); // delivery ends after a day
    refuse("gone", { code: 451, text: "Greylisted" });
    const later = await app.signInAdmin(admin.user);
    expect((await later.post(`/admin/email-logs/${failed.id}/retry`)).status).toBe(200);
    await rowOf(gone, (row) => row.status === "queued" && row.attempts === 2);
    accept();
    app.clock.advance("25m");
    await rowOf(gone, (row) => row.status === "sent" && row.attempts === 3);
    expect(receivedFor(gone)).toHaveLength(1);
  });

  test("POST /admin/email-logs/:id/retry: rejects an e-mail whose link has expired", async () => {
    refuse("late", { code: 550, text: "No such user" });
    const failed = await rowOf(await register("late"), (row) => row.status === "failed");
    const admin = await app.signInAdmin();
    const ofMail = "id = (select token_id from emails where id = ?)";
    await app.sql(`update one_time_tokens set expires_at = created_at where ${ofMail}`, [
      failed.id,
    ]);
    const answer = await admin.post(`/admin/email-logs/${failed.id}/retry`);
    expect(answer).toMatchObject(refusal(409, "CONFLICT"));
  });

  test.each([
    ["in one line", (quote: string) => `5.7.1 Looks like spam: ${quote}`],
    ["cut", (quote: string) => ["5.7.1 Looks like spam:", ...(quote.match(/.{1,20}/g) ?? [])]],
    [
      "as quoted-printable",
      (quote: string) => [
        "5.7.1 Looks like spam:",
        ...(quote.match(/.{1,20}/g) ?? []).map((part) => `${part}=`),
      ],
    ],
    [
      "in base64",
      (quote: string) => `5.7.1 Looks like spam: ${Buffer.from(quote).toString("base64")}`,
    ],
  ])(
    "GET /admin/email-logs: the token of an e-mail that a reply quotes %s is not stored",
    async (_form, answer) => {
      let quote = "";
      let token = "";
      mail.smtpServer.responses.data = ({ to, raw }) => {
        if (!to.startsWith("cut")) return "accept";
        [quote = ""] = /^http.*#token=[\w-]{43}$/m.exec(raw.replaceAll("\r", "")) ?? [];
        token = quote.replace(/.*#token=/, "");
        return { code: 554, text: answer(quote) };
      };
      const { last_error } = await rowOf(
        await register("cut"),
        ({ status }) => status === "failed",
      );
      expect(token).toHaveLength(43);
      const stored = [last_error, ...app.logs].join("\n");
      const pieces = [token, Buffer.from(quote).toString("base64")].flatMap((secret) =>
        times(secret.length - 7, (i) => secret.slice(i, i + 8)),
      );
      expect(pieces.filter((piece) => stored.includes(piece))).toEqual([]);
      expect(last_error).toMatch(/^554 5\.7\.1 Looks like spam: …/);
    },
  );

  test("GET /admin/email-logs/:id/preview: shows an e-mail as it was sent, without its token", async () => {
    const { id } = await rowOf(await register("seen"), (row) => row.status === "sent");
    const admin = await app.signInAdmin();
    const { status, body } = await admin.get(`/admin/email-logs/${id}/preview`);
    expect([status, body.subject]).toEqual([200, "Verify your e-mail address"]);
    expect(body.text).toMatch(/The link works once, for \d+ (days|hours)\./);
    expect(body.html).toMatch(/href="[^"#]+\/verify-email">Verify my address<\/a>/);
    expect(`${body.text}${body.html}`).not.toMatch(/token=|by hand/);
  });

  test("GET /admin/email-logs: lists every e-mail with its attempts, by each filter, without token and text", async () => {
    mail.smtpServer.responses.data = ({ to, raw }) =>
      to.startsWith("quoted") ? { code: 554, text: `Spam: ${raw.slice(0, 2_000)}` } : "accept";
    const user = await app.addUser({ email: `quoted.${randomUUID()}@example.com` });
    const row = await rowOf(user.email, ({ status }) => status === "failed");
    for (const kind of ["one", "two"])
      await rowOf(await register(kind), ({ status }) => status === "sent");
    const admin = await app.signInAdmin();
    const { status, body } = await admin.get(`/admin/email-logs?userId=${user.id}`);
    const mailed = {
      id: row.id,
      userId: user.id,
      user: { id: user.id, name: user.name, email: user.email },
      to: user.email,
      template: "verify-email",
      createdAt: TIME,
    };
    const failure = { status: "failed", attempts: 1, lastError: expect.stringContaining("Spam") };
    expect({ status, body }).toEqual({
      status: 200,
      body: { items: [{ ...mailed, ...failure }], total: 1 },
    });
    expect(JSON.stringify(body)).not.toMatch(/[\w-]{40,}/);
    const find = async (query: string) => (await admin.get(`/admin/email-logs?${query}`)).body;
    expect((await find(`to=${user.email.toUpperCase()}`)).total).toBe(1);
    expect((await find(`to=${user.email}&status=failed&template=verify-email`)).total).toBe(1);
    for (const none of ["status=sent", "template=reset-password"])
      expect((await find(`to=${user.email}&${none}`)).total).toBe(0);
    const sent = (await find("status=sent&limit=1")) as {
      items: Record<string, unknown>[];
      nextCursor: string;
    };
    expect(sent.items[0]).toMatchObject({ status: "sent", sentAt: TIME });
    expect(sent.items[0]).not.toHaveProperty("nextAttemptAt");
    expect((await find(`status=sent&limit=1&cursor=${sent.nextCursor}`)).items[0].id).not.toBe(
      sent.items[0]?.id,
    );
    expect((await admin.get("/admin/email-logs?status=lost")).status).toBe(400);
  });
});
