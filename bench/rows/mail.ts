import { mkdtempSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { v7 as uuid } from "uuid";
import { createCipher } from "../../services/crypto/cipher.ts";
import { createRenderEmail } from "../../services/mail/templates.ts";
import { createMailTransport } from "../../services/mail/transport.ts";
import { startMailWorker } from "../../services/mail/worker.ts";
import { requireConfig } from "../../services/platform/config/config.ts";
import { systemClock } from "../../services/platform/process/clock.ts";
import { createLog } from "../../services/platform/telemetry/log.ts";
import { openStore } from "../../services/store/open-store.ts";

/** Sends queued e-mails to a local SMTP server that accepts everything. */
const { values } = parseArgs({
  allowPositionals: true,
  options: { url: { type: "string" }, emails: { type: "string", default: "10000" } },
});
const emails = Number(values.emails);

let accepted = 0;

/** An SMTP session that accepts and counts every message, with the commands that delivery needs. */
function createSession(): (line: string) => string | undefined {
  let isInMessage = false;
  return (line) => {
    if (isInMessage) {
      if (line !== ".") return undefined;
      isInMessage = false;
      accepted++;
      return "250 taken";
    }
    if (/^QUIT/i.test(line)) return "221 bye";
    if (!/^DATA/i.test(line)) return "250 fine";
    isInMessage = true;
    return "354 go on";
  };
}

const sink = createServer({ noDelay: true }, (socket) => {
  const respond = createSession();
  let rest = "";
  socket.write("220 sink\r\n");
  socket.on("error", () => {});
  socket.on("data", (part) => {
    const lines = (rest + part.toString("latin1")).split("\r\n");
    rest = lines.pop() ?? "";
    for (const response of lines.map(respond)) if (response) socket.write(`${response}\r\n`);
  });
});
await new Promise<void>((resolve) => sink.listen(0, "127.0.0.1", resolve));

const log = createLog("error");
const config = requireConfig({
  DATABASE_URL: values.url ?? "memory:",
  DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-bench-")),
  SMTP_URL: `smtp://127.0.0.1:${(sink.address() as { port: number }).port}`,
});
const store = await openStore(config.database, log);
await store.migrate();
for (let queued = 0; queued < emails; queued += 1_000) {
  const rows = Array.from(
    { length: 1_000 },
    () => `('${uuid()}', '${uuid()}@example.com', 'password-changed', '{"name":"Ann"}',
    null, 'queued', now(), now())`,
  );
  await store
    .fork()
    .execute(
      `insert into emails (id, "to", template, facts, token_id, status, created_at, next_attempt_at) values ${rows}`,
    );
}
const sender = createMailTransport(config, log);
const started = performance.now();
const cpu = process.cpuUsage();
const mailWorker = startMailWorker({
  store,
  sender,
  cipher: createCipher(Buffer.alloc(32)),
  clock: systemClock,
  agreedTime: { read: async () => systemClock.now() },
  config,
  renderEmail: createRenderEmail(config),
  log,
  countEmail: () => {},
});
const sent = async () => {
  const [row] = await store
    .fork()
    .execute<{ n: number }[]>("select count(*)::int as n from emails where status = 'sent'");
  return row?.n ?? 0;
};
while ((await sent()) < emails) await new Promise((resolve) => setTimeout(resolve, 200));
const seconds = (performance.now() - started) / 1000;
const used = process.cpuUsage(cpu);
process.stdout.write(
  `${emails} e-mails, ${accepted} accepted, in ${seconds.toFixed(1)} s: ${Math.round(emails / seconds)} per second, ` +
    `${((used.user + used.system) / 1000 / emails).toFixed(2)} ms CPU each, including the SMTP server\n`,
);
await mailWorker.close();
sender.close();
await store.close();
sink.close();
