import type { Db } from "./statement.ts";

export type ExportRow = Record<string, unknown>;

/** Nano-units as a decimal in the currency, without trailing zeros. */
const moneyOf = (nanos: string) => `trim_scale(${nanos} * 0.000000001)::text`;

/** An amount of budget `b`, as text. */
const amountOf = (amount: string) =>
  `case b.unit when 'cost' then ${moneyOf(amount)} else ${amount}::text end`;

const LISTS = {
  profile: `select id, email, name, bio, locale, metadata, role, email_verified_at, password_changed_at, terms_accepted_at,
      case when not has_password then false end as has_password, mfa_secret is not null as mfa_enabled, mfa_confirmed_at,
      case when second_factor then true end as second_factor_required, last_login_at, demoted_at, deletion_at as deletion_date,
      created_at, updated_at, (select count(*)::int from backup_codes b where b.user_id = users.id) as backup_codes_left
    from users where id = :userId`,
  // read from the e-mail about the request, not from its token: there is no token if another
  // account has the address, which nobody may find out here
  pendingEmail: `select e.facts->>'newEmail' as address, e.created_at as requested_at, e.created_at + :verifyMs * interval '1 ms' as expires_at
    from emails e join users u on u.id = e.user_id
    where e.user_id = :userId and e.template = 'email-change-requested' and e."to" = u.email
      and e.created_at > greatest(u.password_changed_at, :now::timestamptz - :verifyMs * interval '1 ms')
    order by e.id desc`,
  // attempts at sign-in are stored by address, those of known devices by user and device, all
  // others by user
  failedAttempts: `select a.kind, a.failed, a.consecutive, a.failed_at, a.locked_until
    from users u join attempts a on a.subject = u.canonical_email and a.kind = 'password' or a.subject = u.id::text and a.kind <> 'password'
      or a.kind = 'device' and a.subject in (select d.user_id || ':' || d.id from devices d where d.user_id = u.id)
    where u.id = :userId and (a.failed > 0 or a.consecutive > 0 or a.locked_until is not null) order by a.kind`,
  openLinks: `select kind, created_at, expires_at from one_time_tokens
    where user_id = :userId and kind in ('verify-email', 'reset-password', 'invitation', 'not-me', 'not-me-before', 'email-code') and expires_at > :now order by kind`,
  passkeys: `select id, name, algorithm, transports, aaguid, backed_up as synced, created_at, last_used_at
    from passkeys where user_id = :userId order by created_at desc, id desc`,
  identities: `select id, provider, issuer, subject, email, created_at, last_used_at
    from identities where user_id = :userId order by created_at desc, id desc`,
  devices: `select id, label, ip, location, created_at, last_used_at
    from devices where user_id = :userId order by last_used_at desc, id desc`,
  // ended sessions are kept for a while; their end is the earliest of these times
  // the device and location of an impersonation are the administrator's
  sessions: `select s.id, case when s.actor_id is null then s.device end as device,
      case when s.actor_id is null then s.ip end as ip, case when s.actor_id is null then s.location end as location,
      s.actor_id is not null as impersonated, s.methods, s.created_at, s.confirmed_at,
      s.last_active_at as last_active, least(s.revoked_at, s.expires_at, a.revoked_at) as ends_at
    from sessions s left join sessions a on a.id = s.actor_session_id
    where s.user_id = :userId order by s.created_at desc, s.id desc`,
  auditEvents: `select id, event, outcome, actor_id, case when not by_other then ip end as ip,
      case when not by_other then user_agent end as user_agent, request_id,
      case when by_other then details - 'reason' else details end as details, created_at
    from (select e.*, coalesce(actor_id <> own.id, event like 'admin.%') as by_other
      from audit_events e, (select :userId::uuid as id) as own where user_id = own.id or actor_id = own.id) as e
    order by id desc`,
  // excludes e-mails to requested addresses: none is sent if another account has the address, so
  // listing them would reveal that
  emails: `select id, "to", template, status, attempts, last_error, created_at, sent_at, next_attempt_at from emails
    where user_id = :userId and template <> 'change-email' order by id desc`,
  // without the digest
  apiKeys: `select id, name, hint, models, requests_per_minute, created_at, expires_at, last_used_at, last_used_ip, revoked_at
    from api_keys where user_id = :userId order by id desc`,
  budgets: `select b.id, b.scope, b.unit, b.period, case when b.unit = 'cost' then :currency::text end as currency,
      ${amountOf("b.limit_amount")} as "limit", b.alert_percent, c.period_start::text, ${amountOf("c.used")} as used,
      ${amountOf("c.reserved")} as reserved, c.alerted_at, c.exceeded_at
    from budgets b join users u on u.id = :userId left join budget_counters c on c.budget_id = b.id
      and c.subject = case b.scope when 'role' then u.id::text else b.subject end
    where b.scope = 'user' and b.subject = u.id::text
      or b.scope = 'key' and b.subject in (select k.id::text from api_keys k where k.user_id = u.id)
      or b.scope = 'role' and c.subject is not null
    order by b.id desc, c.period_start desc`,
  usage: `select id, api_key_id, alias, provider, model, outcome, input_tokens, output_tokens, cached_input_tokens,
      cache_write_tokens, reasoning_tokens, estimated, attempts, ${moneyOf("cost_nanos")} as cost,
      case when cost_nanos is not null then :currency::text end as currency, latency_ms, first_chunk_ms, created_at
    from ai_usage where user_id = :userId order by created_at desc, id desc`,
  usageDays: `select day::text, provider, model, calls::float8, input_tokens::float8, output_tokens::float8,
      estimated_calls::float8, coalesce(cached_input_tokens, 0)::float8 as cached_input_tokens,
      coalesce(reasoning_tokens, 0)::float8 as reasoning_tokens, case when priced_calls > 0 then ${moneyOf("cost_nanos")} end as cost,
      case when priced_calls > 0 then :currency::text end as currency,
      (calls - coalesce(priced_calls, 0))::float8 as unpriced_calls
    from ai_usage_days where user_id = :userId order by day desc, provider collate "C", model collate "C"`,
};

export type ExportList = keyof typeof LISTS;

/** Reads one page of a list about a user, newest first. */
export function readExportList(
  { em }: Db,
  list: ExportList,
  userId: string,
  page: { limit: number; offset: number; now: Date; verifyMs: number; currency: string },
): Promise<ExportRow[]> {
  return em.execute(`${LISTS[list]} limit :limit offset :offset`, { userId, ...page });
}
