import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { services } from "../../../services/platform/policy.ts";
import { testApp } from "../../support/app.ts";
import { adminActions, userActions } from "./account-actions.ts";
import type { AuditCases, AuditedRequest } from "./audit-cases.ts";
import { authActions } from "./auth-actions.ts";

const app = await testApp();
const inventory: AuditCases = { ...authActions(app), ...userActions(app), ...adminActions(app) };

/** What only reads, and what is counted instead (AI calls leave a usage row). */
const unaudited = [
  ...["ListKeys", "GetProfile", "ListSessions", "ListUsers", "GetUser", "ListUserSessions", "ListAuditLogs"],
  ...["ListEmailLogs", "ListProviders", "Chat", "StreamChat", "ListUsage", "ListAllUsage"],
];

async function send({ method, path, body, token, cookie }: AuditedRequest, requestId: string) {
  const httpClient = app.httpClient();
  const answer = await httpClient.send(method, path, body, {
    "x-request-id": requestId,
    "user-agent": "inventory",
    ...(token && { authorization: `Bearer ${token}` }),
    ...(cookie && { cookie }),
  });
  return { address: httpClient.address, status: answer.status };
}

const eventsOf = (requestId: string) =>
  app.sql<{ event: string; user_id: string | null; actor_id: string | null; details: object }>(
    "select event, user_id, actor_id, ip, user_agent, details from audit_events where request_id = ? order by event",
    [requestId],
  );

test("Audit log: the cases cover every method", () => {
  const methods = services.flatMap((service) => service.methods.map(({ name }) => name));
  expect([...Object.keys(inventory), ...unaudited].sort()).toEqual(methods.sort());
});

const cases = Object.entries(inventory).flatMap(([rpc, ways]) =>
  Object.entries(ways).map(([way, prepare]) => [rpc, way, prepare] as const),
);

describe("Audit log", () => {
  test.each(cases)("%s (%s) records event, user, actor and address", async (_rpc, _way, prepare) => {
    const { deed, trail } = await prepare();
    const requestId = randomUUID();
    const { address, status } = await send(deed, requestId);
    expect(status).toBeLessThan(500);
    const rows = await eventsOf(requestId);
    expect(rows.map(({ event }) => event)).toEqual(trail.events);
    for (const row of rows) {
      expect(row).toMatchObject({ ip: address, user_agent: "inventory" });
      expect(row.details).toEqual(trail.details?.[row.event] ?? {});
      if (trail.user) expect(row.user_id).toBe(trail.user);
      if (trail.user && !row.event.endsWith("requested")) expect(row.actor_id).toBe(trail.actor ?? null);
    }
  });

  const TABLES = {
    users: "id, email, name, bio, role, password_hash, email_verified_at, mfa_secret, deletion_at, updated_at",
    sessions: "id, generation, revoked_at",
    one_time_tokens: "id",
    backup_codes: "user_id, digest",
    emails: "id",
  };
  const everything = async () =>
    Object.fromEntries(
      await Promise.all(
        Object.entries(TABLES).map(async ([table, columns]) => [
          table,
          JSON.stringify(await app.sql(`select ${columns} from ${table} order by ${columns}`)),
        ]),
      ),
    );

  test("an action that cannot be recorded fails", async () => {
    await app.sql(
      `create or replace function refuse_marked() returns trigger language plpgsql as $$ begin
         if new.request_id like 'unrecorded-%' then raise exception 'marked by the test'; end if; return new; end $$`,
    );
    await app.sql(
      "create trigger refuse_marked before insert on audit_events for each row execute function refuse_marked()",
    );
    try {
      for (const [rpc, way, prepare] of cases) {
        const { deed, trail } = await prepare();
        if (trail.events.length === 0) continue;
        const before = await everything();
        const { status } = await send(deed, `unrecorded-${randomUUID()}`);
        expect({ rpc, way, status }).toEqual({ rpc, way, status: 500 });
        expect({ rpc, way, after: await everything() }).toEqual({ rpc, way, after: before });
      }
    } finally {
      await app.sql("drop trigger refuse_marked on audit_events");
    }
  });
});
