import { expect, test } from "vitest";
import { signInAt } from "../support/accounts.ts";
import { POSTGRES_BIN } from "../support/database/postgres-server.ts";
import { runScript } from "../support/processes/processes.ts";
import { describeIf, forSuite, isMissing } from "../support/suites.ts";
import { tally, times } from "../support/tally.ts";
import { until } from "../support/until.ts";
import { startFaultyDeployment } from "./faults/faults.ts";
import { createHistory, runClients } from "./faults/history.ts";
import { contradictions } from "./faults/history-checks.ts";

/** Every fault once in an ordinary run; `npm run faults` goes on for an hour. */
const MINUTES = Number(process.env.FAULTS_MINUTES ?? 0);
const CLIENTS = Number(process.env.FAULTS_CLIENTS ?? (MINUTES ? 8 : 4));
/** An hour shows what twenty seconds without a turn do to timers and leases. */
const FREEZE_MS = MINUTES ? 20_000 : undefined;

describeIf(POSTGRES_BIN && !isMissing("redis-server"), "Faults", async () => {
  const all = await forSuite(startFaultyDeployment(FREEZE_MS));

  /** The newest token that was mailed to an address, within five seconds. */
  const emailToken = async (email: string, subject: RegExp) =>
    (await all.smtp.emailTo(email, subject, 5_000).catch(() => undefined))?.token;
  const areReady = async () => {
    const answers = await Promise.all(
      all.urls.map((url) => fetch(`${url}/health/ready`).catch(() => undefined)),
    );
    return answers.every((answer) => answer?.ok);
  };

  test(
    "lose no acknowledged effect, and let no one-time token work twice and no revoked session work again",
    async () => {
      const history = createHistory();
      const { faults, urls, replicas, sql, env } = all;
      const clients = Promise.all(times(CLIENTS, () => runClients(history, { urls, emailToken })));
      const endsAt = performance.now() + MINUTES * 60_000;
      do {
        for (const [name, fault] of Object.entries(faults).sort(() => Math.random() - 0.5)) {
          const before = history.entries.length;
          await fault();
          await until("both replicas to be ready", areReady, 60_000);
          await until(
            "clients to go on",
            () => history.entries.slice(before).some((e) => e.outcome === "ok"),
            60_000,
          );
          const outcomes = JSON.stringify(
            tally(history.entries.slice(before), ({ outcome }) => outcome),
          );
          process.stdout.write(`${name}: ${outcomes}\n`);
        }
      } while (performance.now() < endsAt);
      history.isOver = true;
      await clients;
      // A clock that was ahead, and many refusals, leave pauses of up to an hour.
      const waiting = `update emails set next_attempt_at = least(next_attempt_at, now() + interval '15 seconds')
        where status in ('queued', 'sending') returning id`;
      await until("the mails", async () => (await sql(waiting)).length === 0, 90_000);
      for (const [i, each] of replicas.entries()) {
        expect(await each.end("SIGTERM")).toBe(0);
        await all.startReplica(i, { RATE_LIMITS: "off" });
      }
      const select = `select "to", last_error as error from emails where status = 'failed'`;
      const failed = await sql<{ to: string; error: string }>(select);
      const refused = failed.filter(({ error }) => /^55[04] /.test(error));
      expect(
        failed.filter((mail) => !refused.includes(mail) && !mail.error.includes("its link")),
      ).toEqual([]);
      const mailed = new Set([...all.smtp.received, ...refused].map(({ to }) => to));
      const check = () => contradictions(history, urls[0] as string, sql, mailed);
      expect(await check()).toEqual([]);
      const outcomes = tally(history.entries, ({ outcome }) => outcome);
      expect([outcomes.ok, outcomes.unknown].every((count) => Number(count) > 20)).toBe(true);
      const { out } = await runScript("audit-verify", [], env);
      expect(out).toContain("sealed events are unchanged since their seal");
      const byClock = "was older than 10 minutes when it was sealed"; // by the replica whose clock was ahead
      const others = out
        .split("\n")
        .filter((line) => /^(Event|Seal)/.test(line) && !line.includes(byClock));
      expect(others).toEqual([]);
      // The checker finds a lost effect, and a session that works again.
      await sql("update users set name = 'Dora'");
      history.ended.push(await signInAt(urls[0] as string));
      expect((await check()).join()).toMatch(
        /has a name that it should not have.*a revoked session works/s,
      );
    },
    (MINUTES + 10) * 60_000,
  );
});
