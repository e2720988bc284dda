import { parseArgs } from "node:util";
import { listAuditLogs } from "../services/admin/list-audit-logs.ts";
import { listUsers, type UserFilter } from "../services/admin/list-users.ts";
import type { Page, PageRequest } from "../services/admin/page.ts";
import { createLog } from "../services/log.ts";
import { openStore } from "../services/store/orm.ts";

/**
 * Times the administrators' lists on a database that bench/seed.ts has filled, filter by filter: the first page, which
 * also counts, and the pages by cursor after it. `node bench/lists.ts --url postgres://… [--pages 40]`
 */
const { values } = parseArgs({ options: { url: { type: "string" }, pages: { type: "string", default: "40" } } });
if (!values.url) throw new Error("--url is missing");
const PAGES = Number(values.pages);
const FIRST_PAGES = 8;

const store = await openStore({ kind: "postgres", url: values.url }, createLog("warn"));
const clock = { now: () => new Date() };
const sql = <T>(text: string) => store.fork().execute<T[]>(text);

type List = (request: PageRequest) => Promise<Page<{ id: string }>>;
const users =
  (filter: UserFilter): List =>
  (request) =>
    listUsers({ em: store.fork(), clock }, filter, request);
const audit =
  (filter: Parameters<typeof listAuditLogs>[1]): List =>
  (request) =>
    listAuditLogs({ em: store.fork() }, filter, request);

const [someone] = await sql<{ id: string; email: string; name: string }>(
  "select id, email, name from users order by id offset 5000 limit 1",
);
const [admin] = await sql<{ id: string }>("select id from users where role = 'admin' limit 1");
const [busy] = await sql<{ user_id: string }>(
  "select user_id from audit_events tablesample system (0.1) group by 1 order by count(*) desc limit 1",
);
if (!someone || !admin || !busy) throw new Error("the database is not seeded");
const [from, to] = [new Date(Date.now() - 200 * 86_400_000), new Date(Date.now() - 170 * 86_400_000)];

const cases: Record<string, List> = {
  users: users({}),
  "users role=user": users({ role: "user" }),
  "users role=admin": users({ role: "admin" }),
  "users emailVerified=true": users({ emailVerified: true }),
  "users emailVerified=false": users({ emailVerified: false }),
  "users locked=true": users({ locked: true }),
  "users locked=false": users({ locked: false }),
  "users role=admin emailVerified=false locked=false": users({ role: "admin", emailVerified: false, locked: false }),
  "users search=whole address": users({ search: someone.email }),
  "users search=rare part": users({ search: someone.email.slice(2, 11) }),
  "users search=name": users({ search: someone.name }),
  "users search=tara (1 in 20)": users({ search: "tara" }),
  "users search=example (1 in 2)": users({ search: "EXAMPLE" }),
  "users search=nowhere": users({ search: "nosuchperson" }),
  "users search=.9999 (some)": users({ search: ".9999" }),
  "users search=zq (two letters)": users({ search: "qz" }),
  "users search=tara role=admin": users({ search: "tara", role: "admin" }),
  "users search=example locked=true": users({ search: "example", locked: true }),
  audit: audit({}),
  "audit userId (quiet)": audit({ userId: someone.id }),
  "audit userId (busy)": audit({ userId: busy.user_id }),
  "audit actorId=admin": audit({ actorId: admin.id }),
  "audit event=auth.login": audit({ event: "auth.login" }),
  "audit event=admin.impersonated": audit({ event: "admin.impersonated" }),
  "audit event=unknown": audit({ event: "no.such" }),
  "audit from to": audit({ from, to }),
  "audit userId event": audit({ userId: busy.user_id, event: "user.password_changed" }),
  "audit actorId event from to": audit({ actorId: admin.id, event: "admin.user_updated", from, to }),
  "audit userId actorId": audit({ userId: busy.user_id, actorId: admin.id }),
};

const at = (times: number[], share: number) => times.sort((a, b) => a - b)[Math.floor(share * (times.length - 1))] ?? 0;
const show = (times: number[]) =>
  times.length === 0 ? "–" : `${at(times, 0.5).toFixed(1)} / ${at(times, 0.95).toFixed(1)}`;

async function timed(list: List, request: PageRequest, into: number[]) {
  const started = performance.now();
  const page = await list(request);
  into.push(performance.now() - started);
  return page;
}

const [allFirst, allNext]: [number[], number[]] = [[], []];
process.stdout.write("| list | rows told | first page p50 / p95 ms | by cursor p50 / p95 ms |\n|---|---|---|---|\n");
for (const [name, list] of Object.entries(cases)) {
  const [first, next]: [number[], number[]] = [[], []];
  let page = await list({});
  for (let i = 0; i < FIRST_PAGES; i++) page = await timed(list, {}, first);
  const { total, totalEstimated } = page;
  for (let i = 0; i < PAGES && page.nextCursor; i++) page = await timed(list, { cursor: page.nextCursor }, next);
  allFirst.push(...first);
  allNext.push(...next);
  process.stdout.write(`| ${name} | ${totalEstimated ? "~" : ""}${total} | ${show(first)} | ${show(next)} |\n`);
}
process.stdout.write(`| all | | ${show(allFirst)} | ${show(allNext)} |\n`);
await store.close();
