-- The audit log of release 0.1. It is append-only: one partition per month, which retention drops as a whole, and
-- triggers that reject all other changes. `audit_seals` holds the hash chain over its rows.
--
-- Ids are UUIDv7 and begin with the time, so that the key used for paging is also the partition key.
create table audit_events (
  id uuid primary key,
  event varchar(64) not null,
  outcome varchar(16) not null,
  user_id uuid,
  actor_id uuid,
  ip varchar(45) not null,
  user_agent varchar(400) not null,
  request_id varchar(128) not null,
  details jsonb not null,
  created_at timestamptz(3) not null
) partition by range (id);

--> statement-breakpoint

create index audit_events_user on audit_events (user_id, id, event);

--> statement-breakpoint

create index audit_events_actor on audit_events (actor_id, id, event, user_id);

--> statement-breakpoint

create index audit_events_event on audit_events (event, id);

--> statement-breakpoint

create table audit_unsealed (event_id uuid primary key);

--> statement-breakpoint

create table audit_seals (
  position bigint primary key,
  ids uuid[] not null,
  links bytea not null,
  dropped_below uuid,
  head bytea not null,
  sealed_at timestamptz(3) not null
);

--> statement-breakpoint

create function audit_refuse() returns trigger language plpgsql as $$
begin
  raise exception 'the audit log is append-only' using errcode = 'insufficient_privilege';
end $$;

--> statement-breakpoint

create trigger audit_append_only before update or delete on audit_events for each row execute function audit_refuse();

--> statement-breakpoint

create trigger audit_untruncated before truncate on audit_events for each statement execute function audit_refuse();

--> statement-breakpoint

create trigger audit_append_only before update or delete on audit_seals for each row execute function audit_refuse();

--> statement-breakpoint

create trigger audit_untruncated before truncate on audit_seals for each statement execute function audit_refuse();

--> statement-breakpoint

create function audit_id_at(day date) returns uuid language sql immutable as $$
  select (lpad(to_hex((extract(epoch from day::timestamp at time zone 'UTC') * 1000)::bigint), 12, '0')
    || repeat('0', 20))::uuid
$$;

--> statement-breakpoint

create function audit_add_partition(month date) returns void language plpgsql as $$
declare
  part text := 'audit_events_' || to_char(month, 'YYYY_MM');
begin
  if to_regclass(part) is not null then return; end if;
  execute format('create table %I partition of audit_events for values from (%L) to (%L)', part,
    audit_id_at(month), audit_id_at((month + interval '1 month')::date));
  execute format('create trigger audit_untruncated before truncate on %I execute function audit_refuse()', part);
end $$;

--> statement-breakpoint

-- For months without a partition.
create table audit_events_default partition of audit_events default;

--> statement-breakpoint

create trigger audit_untruncated before truncate on audit_events_default execute function audit_refuse();

--> statement-breakpoint

select audit_add_partition(month::date)
from date_trunc('month', now() at time zone 'UTC') as today,
  generate_series(today, today + interval '3 months', '1 month') as month;
