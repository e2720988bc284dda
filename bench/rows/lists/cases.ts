import { systemClock } from "../../../services/platform/process/clock.ts";
import type { UserFilter } from "../../../services/store/admin-users.ts";
import { listUsers } from "../../../services/store/admin-users.ts";
import { type AuditFilter, listAuditEvents } from "../../../services/store/audit-events.ts";
import { type EmailFilter, listEmails } from "../../../services/store/emails.ts";
import {
  encodeCursor,
  type Page,
  type PageRequest,
  type Total,
} from "../../../services/store/page.ts";
import type { Store } from "../../../services/store/store.ts";

/** A list with a filter, whose values change with each request. */
export type Case = {
  name: string;
  read(request: PageRequest): Promise<Page<{ id: string }>>;
  /** A cursor at a random row, with the total of an earlier page. */
  cursor(total: Total): string;
};

const DAY_MS = 86_400_000;
const SAMPLES = 60;

/** All documented filters of the administrators' lists, alone and in sensible combinations. */
export async function listCases(store: Store): Promise<Case[]> {
  const sample = async <T>(columns: string, from: string, more = "") => {
    const rows = await store
      .fork()
      .execute<T[]>(
        `select ${columns} from ${from} ${more} order by md5(id::text) limit ${SAMPLES}`,
      );
    if (rows.length === 0) throw new Error("the database is not seeded");
    let next = 0;
    return () => rows[next++ % rows.length] as T;
  };
  type Id = { id: string };
  const person = await sample<{ id: string; email: string; name: string }>(
    "id, email, name",
    "users tablesample system (2)",
  );
  const admin = await sample<Id>("id", "users", "where role = 'admin'");
  const busy = await sample<Id>(
    "id",
    "(select user_id as id from audit_events tablesample system (1) group by 1 order by count(*) desc limit 60) u",
  );
  const spots = {
    users: await sample<Id>("id", "users tablesample system (2)"),
    audit: await sample<Id>("id", "audit_events tablesample system (1)"),
    emails: await sample<Id>("id", "emails tablesample system (2)"),
  };
  const month = () => {
    const from = Date.now() - (40 + Math.random() * 280) * DAY_MS;
    return { from: new Date(from), to: new Date(from + 30 * DAY_MS) };
  };
  const called = (list: keyof typeof spots, name: string, read: Case["read"]): Case => ({
    name: `${list} ${name}`.trim(),
    read,
    cursor: (total) => encodeCursor(spots[list]().id, total),
  });
  const users = (name: string, filter: () => UserFilter) =>
    called("users", name, (request) =>
      listUsers({ em: store.fork(), clock: systemClock }, filter(), request),
    );
  const audit = (name: string, filter: () => AuditFilter) =>
    called("audit", name, (request) => listAuditEvents({ em: store.fork() }, filter(), request));
  const emails = (name: string, filter: () => EmailFilter) =>
    called("emails", name, (request) => listEmails({ em: store.fork() }, filter(), request));

  return [
    users("", () => ({})),
    users("role=user", () => ({ role: "user" })),
    users("role=admin", () => ({ role: "admin" })),
    users("emailVerified=true", () => ({ emailVerified: true })),
    users("emailVerified=false", () => ({ emailVerified: false })),
    users("locked=true", () => ({ locked: true })),
    users("locked=false", () => ({ locked: false })),
    users("mfaEnabled=true", () => ({ mfaEnabled: true })),
    users("mfaEnabled=false", () => ({ mfaEnabled: false })),
    users("role=admin emailVerified=false", () => ({ role: "admin", emailVerified: false })),
    users("role=user emailVerified=false locked=false", () => ({
      role: "user",
      emailVerified: false,
      locked: false,
    })),
    users("search: an address", () => ({ search: person().email })),
    users("search: part of an address", () => ({ search: person().email.slice(2, 12) })),
    users("search: a name", () => ({ search: person().name })),
    users("search: 1 in 2", () => ({ search: "EXAMPLE" })),
    users("search: 1 in 20", () => ({ search: "tara" })),
    users("search: 1 in 100", () => ({ search: "12@exa" })),
    users("search: 1 in 1,000", () => ({ search: "112@exa" })),
    users("search: no match", () => ({ search: "nosuchperson" })),
    users("search: two letters, 1 in 2", () => ({ search: "ex" })),
    users("search: two letters, 1 in 60", () => ({ search: "qz" })),
    users("search: two letters, no match", () => ({ search: "z%" })),
    users("search role=admin", () => ({ search: "tara", role: "admin" })),
    users("search emailVerified=false", () => ({ search: "tara", emailVerified: false })),
    users("search: 1 in 2, locked=true", () => ({ search: "example", locked: true })),
    users("search: a name, locked=false", () => ({ search: person().name, locked: false })),
    users("locked=true role=user emailVerified=true", () => ({
      locked: true,
      role: "user",
      emailVerified: true,
    })),
    audit("", () => ({})),
    audit("userId", () => ({ userId: person().id })),
    audit("userId (busy)", () => ({ userId: busy().id })),
    audit("actorId (admin)", () => ({ actorId: admin().id })),
    audit("event=auth.login", () => ({ event: "auth.login" })),
    audit("event=admin.impersonated", () => ({ event: "admin.impersonated" })),
    audit("event: unknown", () => ({ event: "no.such" })),
    audit("from to", month),
    audit("from", () => ({ from: month().from })),
    audit("userId (busy) event", () => ({ userId: busy().id, event: "user.password_changed" })),
    audit("userId (busy) from to", () => ({ userId: busy().id, ...month() })),
    audit("userId event: none", () => ({ userId: person().id, event: "admin.denied" })),
    audit("userId (busy) actorId", () => ({ userId: busy().id, actorId: admin().id })),
    audit("actorId event", () => ({ actorId: admin().id, event: "admin.impersonated" })),
    audit("event from to", () => ({ event: "admin.user_updated", ...month() })),
    audit("actorId event from to", () => ({
      actorId: admin().id,
      event: "admin.user_updated",
      ...month(),
    })),
    emails("", () => ({})),
    emails("userId", () => ({ userId: person().id })),
    emails("to", () => ({ to: person().email.toUpperCase() })),
    emails("template", () => ({ template: "verify-email" })),
    emails("template: unknown", () => ({ template: "no-such" })),
    emails("status=sent", () => ({ status: "sent" })),
    emails("status=failed", () => ({ status: "failed" })),
    emails("status=queued", () => ({ status: "queued" })),
    emails("template status=failed", () => ({ template: "verify-email", status: "failed" })),
    emails("template status=queued", () => ({ template: "reset-password", status: "queued" })),
    emails("userId template", () => ({ userId: person().id, template: "verify-email" })),
    emails("to status=sent", () => ({ to: person().email, status: "sent" })),
  ];
}
