-- Audit events by day. They are counted when they are sealed, by one process at a time, so that sign-ins never wait for each
-- other. Events of the seals since `counted_from` are counted; a job adds the earlier ones and ends with 0.
create table audit_counting (counted_from bigint);

--> statement-breakpoint

insert into audit_counting values (null);

--> statement-breakpoint

create table audit_days (
  day date not null,
  event varchar(64) not null,
  outcome varchar(16) not null,
  events bigint not null,
  primary key (day, event, outcome)
);

--> statement-breakpoint

-- Active users by day. Past days are replaced with a number.
create table active_users (
  day date not null,
  user_id uuid not null,
  primary key (day, user_id)
);

--> statement-breakpoint

create table active_user_days (day date primary key, users bigint not null);

--> statement-breakpoint

create function audit_count() returns trigger language plpgsql as $$
begin
  update audit_counting set counted_from = new.position where counted_from is null;

  insert into audit_days as d
  select (created_at at time zone 'UTC')::date, event, outcome, count(*)
  from audit_events where id = any(new.ids) group by 1, 2, 3 order by 1, 2, 3
  on conflict (day, event, outcome) do update set events = d.events + excluded.events;

  insert into active_users
  select distinct (created_at at time zone 'UTC')::date, user_id
  from audit_events where id = any(new.ids) and event = 'auth.login' and user_id is not null
  order by 1, 2
  on conflict do nothing;
  return null;
end $$;

--> statement-breakpoint

create trigger audit_counted after insert on audit_seals for each row execute function audit_count();

--> statement-breakpoint

create function session_count() returns trigger language plpgsql as $$
begin
  insert into active_users values ((new.last_active_at at time zone 'UTC')::date, new.user_id) on conflict do nothing;
  return null;
end $$;

--> statement-breakpoint

-- A session that is used on a later day. Its first day is that of the sign-in.
create trigger session_counted after update of last_active_at on sessions for each row
  when (new.actor_id is null
    and (new.last_active_at at time zone 'UTC')::date <> (old.last_active_at at time zone 'UTC')::date)
  execute function session_count();
