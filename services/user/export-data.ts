import type { JsonObject } from "@bufbuild/protobuf";
import type { SignedInCall } from "../call.ts";

/** Most rows of each list in a page, which stays well below the largest message. */
const MAX_SESSIONS = 1_000;
const MAX_EVENTS = 4_000;
const MAX_EMAILS = 1_000;
const MAX_USAGE = 4_000;

/**
 * Everything kept about the caller, as JSON, each list newest first; never a secret.
 * @param page 1-based; where there is more, the answer names the next one as `nextPage`
 */
export async function exportData(call: SignedInCall, page: number): Promise<JsonObject> {
  const { id } = call.caller.user;
  const further: { nextPage?: number } = {};
  const read = async (sql: string, most: number) => {
    const rows = await call.em.execute<Row[]>(`${sql} limit ? offset ?`, [id, most + 1, (page - 1) * most]);
    if (rows.length > most) further.nextPage = page + 1;
    return rows.slice(0, most).map(toJsonRow);
  };
  await call.ai.usage.flush();
  const lostBefore = new Date(call.clock.now().getTime() - call.ai.longestMs).toISOString();
  const [profile] = await call.em.execute<Row[]>(PROFILE, [id]);
  return {
    exportedAt: call.clock.now().toISOString(),
    profile: toJsonRow(profile ?? {}),
    sessions: await read(SESSIONS, MAX_SESSIONS),
    auditEvents: await read(EVENTS, MAX_EVENTS),
    emails: await read(EMAILS, MAX_EMAILS),
    usage: (await read(USAGE, MAX_USAGE)).map((row) => settledIn(row, lostBefore)),
    ...further,
  };
}

type Row = Record<string, unknown>;

const PROFILE = `select id, email, name, bio, role, email_verified_at, password_changed_at, terms_accepted_at,
  mfa_secret is not null as mfa_enabled, last_login_at, created_at, updated_at from users where id = ?`;
// ended ones are kept for a while: what ends first ends a session, or has ended it
const SESSIONS = `select s.id, s.device, s.ip, s.location, s.actor_id is not null as impersonated, s.created_at,
  s.last_active_at as last_active,
  least(s.revoked_at, s.expires_at, a.revoked_at) as ends_at
  from sessions s left join sessions a on a.id = s.actor_session_id
  where s.user_id = ? order by s.created_at desc, s.id desc`;
const EVENTS = `select id, event, outcome, actor_id, ip, user_agent, request_id, details, created_at
  from audit_events where user_id = ? order by id desc`;
const EMAILS = `select id, "to", template, status, created_at, sent_at from emails where user_id = ? order by id desc`;
const USAGE = `select id, provider, model, outcome, input_tokens, output_tokens, estimated, latency_ms, first_chunk_ms,
  created_at from ai_usage where user_id = ? order by created_at desc, id desc`;

/** A call that would have to be over by now has lost its process. */
const settledIn = (row: JsonObject, lostBefore: string): JsonObject =>
  row.outcome === "running" && String(row.createdAt) < lostBefore ? { ...row, outcome: "failed" } : row;

/** Names as in every other answer, times in ISO 8601; what is not there is left out. */
function toJsonRow(row: Row): JsonObject {
  return Object.fromEntries(
    Object.entries(row)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [
        name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
        /_(at|active)$/.test(name) ? new Date(value as string).toISOString() : value,
      ]),
  ) as JsonObject;
}
