import { parseArgs } from "node:util";
import { v7 as uuid } from "uuid";
import { recordAudit } from "../services/audit/record.ts";
import { type AppContext, systemCall } from "../services/call.ts";
import { systemClock } from "../services/platform/process/clock.ts";
import { createLog } from "../services/platform/telemetry/log.ts";
import { listUsers } from "../services/store/admin-users.ts";
import { listAuditEvents } from "../services/store/audit-events.ts";
import { openStore } from "../services/store/open-store.ts";

/**
 * Walks a list to its end by cursor while rows are added, and checks that every row that stood at
 * the start is seen exactly once: `node bench/walk.ts --url postgres://… [--list users|audit]`, on
 * what bench/seed.ts has made.
 */
const { values } = parseArgs({
  options: { url: { type: "string" }, list: { type: "string", default: "users" } },
});
if (!values.url) throw new Error("--url is missing");
const store = await openStore({ kind: "postgres", url: values.url }, createLog("warn"));
const table = values.list === "audit" ? "audit_events" : "users";

let added = 0;
let walking = true;
async function add(): Promise<void> {
  while (walking) {
    const call = systemCall({ clock: systemClock } as AppContext, store, "bench");
    if (table === "audit_events") await recordAudit(call, "auth.login", { userId: uuid() });
    else
      await call.em.execute(
        `insert into users select ?, ?, ?, name, bio, role, password_hash, password_changed_at, email_verified_at, terms_accepted_at,
           null, null, null, null, null, now(), now() from users limit 1`,
        [uuid(), `late${added}.${uuid()}@example.com`, `late${added}.${uuid()}@example.com`],
      );
    added++;
  }
}

const [start] = await store
  .fork()
  .execute<{ n: string; last: string }[]>(
    `select count(*) as n, max(id::text) as last from ${table}`,
  );
const writers = [add(), add()];
const seen = new Set<string>();
let [rows, pages, repeated] = [0, 0, 0];
const times: number[] = [];
const started = performance.now();
for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
  const from = performance.now();
  const request = { limit: 100, cursor };
  const page =
    table === "users"
      ? await listUsers({ em: store.fork(), clock: systemClock }, {}, request)
      : await listAuditEvents({ em: store.fork() }, {}, request);
  times.push(performance.now() - from);
  pages++;
  for (const { id } of page.items) {
    if (id > (start?.last ?? "")) continue;
    rows++;
    const key = id.slice(0, 13) + id.slice(24); // shorter, and still its own
    if (seen.has(key)) repeated++;
    seen.add(key);
  }
  cursor = page.nextCursor;
}
walking = false;
await Promise.all(writers);
times.sort((a, b) => a - b);
const at = (share: number) => (times[Math.floor(share * (times.length - 1))] ?? 0).toFixed(1);
process.stdout.write(
  `${values.list}: ${start?.n} rows stood, ${rows} seen, ${seen.size} of them different, ${repeated} repeated, ` +
    `${added} added meanwhile; ${pages} pages in ${((performance.now() - started) / 1000).toFixed(0)} s, ` +
    `p50 ${at(0.5)} ms, p95 ${at(0.95)} ms\n`,
);
await store.close();
