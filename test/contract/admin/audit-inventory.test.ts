import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { startExternalApp } from "../../support/external.ts";
import { bearer } from "../../support/http/client.ts";
import { type AuditCase, auditCases } from "./audit-cases.ts";
import { routes } from "./routes.ts";

const { app, ...providers } = await startExternalApp({ EMAIL_SIGN_IN: "code" });
const inventory = auditCases(app, providers);

/** Methods that only read, and AI calls, which have usage rows instead. */
const unaudited = [
  ...[
    "ListKeys",
    "ListSignInMethods",
    "GetSignInMethods",
    "StartPasskey",
    "CreatePasskeyOptions",
    "ListPasskeys",
    "GetProfile",
    "ListSessions",
    "ListUsers",
    "GetUser",
    "ListUserSessions",
    "GetUserSignInMethods",
    "ListAuditLogs",
  ],
  ...["StartExternal", "ListIdentities", "ListUserIdentities", "ListDevices"],
  ...["ListBudgets", "ListOwnBudgets", "ListWebhooks", "ListWebhookDeliveries"],
  ...["ListApiKeys", "ListAllApiKeys", "GetOverview", "SumUsage"],
  ...[
    "Complete",
    "CreateEmbeddings",
    "ListModels",
    "GetModel",
    "ListEmailLogs",
    "PreviewEmail",
    "ListProviders",
    "Chat",
    "StreamChat",
    "ListUsage",
    "ListAllUsage",
    "ExportUsage",
    "ListProviderStates",
  ],
  ...["RelayMessages", "RelayResponses", "CountMessageTokens"],
];

/** The method of a case. */
const methodOf = (name: string) => name.split(",")[0] as string;

async function send(name: string, { id = "", body, token, cookie }: AuditCase, requestId: string) {
  const { verb = "", path = "" } = routes.find((route) => route.name === methodOf(name)) ?? {};
  const httpClient = app.httpClient();
  const { status } = await httpClient.send(verb, path.replace(/\{\w+\}/, id), body, {
    "x-request-id": requestId,
    "user-agent": "inventory",
    ...bearer(token),
    ...(cookie && { cookie }),
  });
  return { address: httpClient.address, status };
}

const eventsOf = (requestId: string) =>
  app.sql<{ event: string; user_id: string | null; actor_id: string | null; details: object }>(
    "select event, outcome, user_id, actor_id, ip, user_agent, details from audit_events where request_id = ? order by event",
    [requestId],
  );

test("Audit log: every method either has a case or is listed as unaudited", () => {
  const covered = new Set(Object.keys(inventory).map(methodOf));
  expect([...covered, ...unaudited].sort()).toEqual(routes.map(({ name }) => name).sort());
});

const cases = Object.entries(inventory);

describe("Audit log", () => {
  test.each(cases)(
    "%s: records event, outcome, user, actor, address and browser",
    async (name, prepare) => {
      const audited = await prepare();
      const requestId = randomUUID();
      const { address, status } = await send(name, audited, requestId);
      expect(status).toBeLessThan(500);
      const rows = await eventsOf(requestId);
      expect(rows.map(({ event, details }) => [event, details])).toEqual(
        Object.entries(audited.events),
      );
      const { user: user_id = expect.any(String), actor: actor_id = null } = audited;
      for (const row of rows) {
        const outcome = /failed|locked|reused|denied/.test(row.event) ? "failure" : "success";
        expect(row).toMatchObject({
          outcome,
          ip: address,
          user_agent: "inventory",
          user_id,
          actor_id,
        });
      }
    },
  );

  const TABLES = {
    users:
      "id, email, name, bio, role, password_hash, email_verified_at, mfa_secret, deletion_at, updated_at",
    sessions: "id, generation, revoked_at",
    one_time_tokens: "id",
    passkeys: "id, sign_count, last_used_at",
    identities: "id",
    devices: "user_id, id, last_used_at",
    completed_ceremonies: "id",
    backup_codes: "user_id, digest",
    emails: "id",
    webhooks: "id, url, description, events, secret, disabled_at",
    webhook_deliveries: "id, queued_at",
  };
  const DIGESTS = Object.entries(TABLES).map(
    ([table, columns]) =>
      `select '${table}' as name, md5(string_agg(row(${columns})::text, '|' order by ${columns})) as rows from ${table}`,
  );
  /** The digest of the rows of each table. */
  async function allRows() {
    const found = await app.sql<{ name: string; rows: string }>(DIGESTS.join(" union all "));
    return Object.fromEntries(found.map(({ name, rows }) => [name, rows]));
  }

  test("an action whose event cannot be stored fails and changes nothing", async () => {
    await app.sql(
      `create or replace function refuse_marked() returns trigger language plpgsql as $$ begin
         if new.request_id like 'unrecorded-%' then raise exception 'marked by the test'; end if; return new; end $$`,
    );
    await app.sql(
      "create trigger refuse_marked before insert on audit_events for each row execute function refuse_marked()",
    );
    try {
      for (const [name, prepare] of cases) {
        const audited = await prepare();
        if (Object.keys(audited.events).length === 0) continue;
        const rows = async () => ({ ...(await allRows()), [audited.spends ?? ""]: undefined });
        const before = await rows();
        const { status } = await send(name, audited, `unrecorded-${randomUUID()}`);
        expect({ name, status }).toEqual({ name, status: 500 });
        expect({ name, after: await rows() }).toEqual({ name, after: before });
      }
    } finally {
      await app.sql("drop trigger refuse_marked on audit_events");
    }
  });
});
