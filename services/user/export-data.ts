import type { JsonObject } from "@bufbuild/protobuf";
import type { SignedInCall } from "../call.ts";
import { listOpenSessions } from "../security/open-sessions.ts";

/** Most rows of each list, newest first: the answer stays well below the largest message. */
const MOST_EVENTS = 4_000;
const MOST_EMAILS = 1_000;
const MOST_USAGE = 4_000;

/**
 * Everything kept about the caller, as JSON; never a secret. A list that was cut short is named in `truncated`.
 */
export async function exportData(call: SignedInCall): Promise<JsonObject> {
  const { id } = call.caller.user;
  const read = (sql: string, most: number) => call.em.execute<Row[]>(`${sql} limit ?`, [id, most + 1]);
  const [profile] = await call.em.execute<Row[]>(PROFILE, [id]);
  const lists: [string, number, Row[]][] = [
    ["sessions", Number.POSITIVE_INFINITY, await sessions(call)],
    ["auditEvents", MOST_EVENTS, await read(EVENTS, MOST_EVENTS)],
    ["emails", MOST_EMAILS, await read(EMAILS, MOST_EMAILS)],
    ["usage", MOST_USAGE, await read(USAGE, MOST_USAGE)],
  ];
  const truncated = lists.filter(([, most, rows]) => rows.length > most).map(([name]) => name);
  return {
    exportedAt: call.clock.now().toISOString(),
    profile: tidy(profile ?? {}),
    ...Object.fromEntries(lists.map(([name, most, rows]) => [name, rows.slice(0, most).map(tidy)])),
    ...(truncated.length > 0 && { truncated }),
  };
}

type Row = Record<string, unknown>;

const PROFILE = `select id, email, name, bio, role, email_verified_at, password_changed_at, terms_accepted_at,
  mfa_secret is not null as mfa_enabled, last_login_at, deletion_at, created_at, updated_at from users where id = ?`;
const EVENTS = `select id, event, outcome, actor_id, ip, user_agent, request_id, details, created_at
  from audit_events where user_id = ? order by id desc`;
const EMAILS = `select id, "to", template, status, created_at, sent_at from emails where user_id = ? order by id desc`;
const USAGE = `select id, provider, model, outcome, input_tokens, output_tokens, estimated, latency_ms, first_chunk_ms,
  created_at from ai_usage where user_id = ? order by created_at desc`;

async function sessions(call: SignedInCall): Promise<Row[]> {
  const open = await listOpenSessions(call, call.caller.user.id);
  return open.map(({ actor_id, ...session }) => ({ ...session, impersonated: actor_id !== null }));
}

/** Names as in every other answer, times in ISO 8601; what is not there is left out. */
function tidy(row: Row): JsonObject {
  return Object.fromEntries(
    Object.entries(row)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [
        name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
        /_(at)$/.test(name) ? new Date(value as string).toISOString() : value,
      ]),
  ) as JsonObject;
}
