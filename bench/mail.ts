import { mkdtempSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { v7 as uuid } from "uuid";
import { createCipher } from "../services/crypto/cipher.ts";
import { createMailTransport } from "../services/mail/transport.ts";
import { startMailWorker } from "../services/mail/worker.ts";
import { requireConfig } from "../services/platform/config/config.ts";
import { systemClock } from "../services/platform/process/clock.ts";
import { createLog } from "../services/platform/telemetry/log.ts";
import { openStore } from "../services/store/open-store.ts";

/**
 * How fast waiting letters go out to a local SMTP server that takes everything:
 * `node bench/mail.ts --url postgres://<an empty database> | memory: [--letters 10000]`.
 */
const { values } = parseArgs({
  options: { url: { type: "string" }, letters: { type: "string", default: "10000" } },
});
const letters = Number(values.letters);

let taken = 0;

/** A conversation that accepts and counts every message. Knows only what a client needs to deliver one. */
function createConversation(): (line: string) => string | undefined {
  let isInMessage = false;
  return (line) => {
    if (isInMessage) {
      if (line !== ".") return undefined;
      isInMessage = false;
      taken++;
      return "250 taken";
    }
    if (/^QUIT/i.test(line)) return "221 bye";
    if (!/^DATA/i.test(line)) return "250 fine";
    isInMessage = true;
    return "354 go on";
  };
}

const sink = createServer({ noDelay: true }, (socket) => {
  const respond = createConversation();
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
for (let queued = 0; queued < letters; queued += 1_000) {
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
  log,
});
const sent = async () => {
  const [row] = await store
    .fork()
    .execute<{ n: number }[]>("select count(*)::int as n from emails where status = 'sent'");
  return row?.n ?? 0;
};
while ((await sent()) < letters) await new Promise((resolve) => setTimeout(resolve, 200));
const seconds = (performance.now() - started) / 1000;
const used = process.cpuUsage(cpu);
process.stdout.write(
  `${letters} letters, ${taken} taken, in ${seconds.toFixed(1)} s: ${Math.round(letters / seconds)} a second, ` +
    `${((used.user + used.system) / 1000 / letters).toFixed(2)} ms CPU each with the sink\n`,
);
await mailWorker.close();
sender.close();
await store.close();
sink.close();
