-- Usage is summed up by day when it is written, so that reports add up sums instead of calls. Triggers count the calls of
-- processes of the previous release too. Calls since `summed_from` are in the sums; a job adds the earlier ones.
create table ai_usage_summing (summed_from timestamptz not null);

--> statement-breakpoint

insert into ai_usage_summing values (now());

--> statement-breakpoint

create table ai_usage_models (
  day date not null,
  provider varchar(64) not null,
  model varchar(128) not null,
  calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  estimated_calls bigint not null,
  constraint ai_usage_models_key primary key (day, provider, model)
) with (fillfactor = 50);

--> statement-breakpoint

-- Sums of erased users may repeat a key, so that erasing a user merges nothing.
create table ai_usage_users (
  user_id uuid references users (id) on delete set null,
  day date not null,
  calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  estimated_calls bigint not null,
  constraint ai_usage_users_key unique (user_id, day) include (input_tokens, output_tokens)
);

--> statement-breakpoint

-- Finds the users with the most tokens of each day. Both indexes contain all columns that this search reads.
create index ai_usage_users_tokens on ai_usage_users (day, (input_tokens + output_tokens) desc)
  include (user_id, input_tokens, output_tokens) where user_id is not null;

--> statement-breakpoint

-- Adds new calls, and the changes when calls end. Calls that are deleted when they become daily totals still count.
-- Rows are sorted, so that two processes never deadlock.
create function ai_usage_sum_up() returns trigger language plpgsql as $$
declare
  since timestamptz := (select summed_from from ai_usage_summing);
begin
  if tg_op = 'INSERT' then
    insert into ai_usage_users as s
    select user_id, (created_at at time zone 'UTC')::date, count(*), sum(input_tokens), sum(output_tokens), sum(estimated::int)
    from added where created_at >= since group by 1, 2 order by 1, 2
    on conflict on constraint ai_usage_users_key do update set
      calls = s.calls + excluded.calls, estimated_calls = s.estimated_calls + excluded.estimated_calls,
      input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens;

    insert into ai_usage_models as s
    select (created_at at time zone 'UTC')::date, provider, model, count(*), sum(input_tokens), sum(output_tokens), sum(estimated::int)
    from added where created_at >= since group by 1, 2, 3 order by 1, 2, 3
    on conflict on constraint ai_usage_models_key do update set
      calls = s.calls + excluded.calls, estimated_calls = s.estimated_calls + excluded.estimated_calls,
      input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens;
  else
    insert into ai_usage_users as s
    select n.user_id, (n.created_at at time zone 'UTC')::date, 0, sum(n.input_tokens - o.input_tokens),
      sum(n.output_tokens - o.output_tokens), sum(n.estimated::int - o.estimated::int)
    from added n join replaced o using (id)
    where n.created_at >= since and (n.input_tokens, n.output_tokens, n.estimated) is distinct from (o.input_tokens, o.output_tokens, o.estimated)
    group by 1, 2 order by 1, 2
    on conflict on constraint ai_usage_users_key do update set
      estimated_calls = s.estimated_calls + excluded.estimated_calls,
      input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens;

    insert into ai_usage_models as s
    select (n.created_at at time zone 'UTC')::date, n.provider, n.model, 0, sum(n.input_tokens - o.input_tokens),
      sum(n.output_tokens - o.output_tokens), sum(n.estimated::int - o.estimated::int)
    from added n join replaced o using (id)
    where n.created_at >= since and (n.input_tokens, n.output_tokens, n.estimated) is distinct from (o.input_tokens, o.output_tokens, o.estimated)
    group by 1, 2, 3 order by 1, 2, 3
    on conflict on constraint ai_usage_models_key do update set
      estimated_calls = s.estimated_calls + excluded.estimated_calls,
      input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens;
  end if;
  return null;
end $$;

--> statement-breakpoint

create trigger ai_usage_inserted after insert on ai_usage
  referencing new table as added for each statement execute function ai_usage_sum_up();

--> statement-breakpoint

create trigger ai_usage_updated after update on ai_usage
  referencing old table as replaced new table as added for each statement execute function ai_usage_sum_up();

--> statement-breakpoint

-- Calls that are not in the sums yet, with the columns of `ai_usage_days`.
create view ai_usage_unsummed as
  select user_id, day, provider, model, calls, input_tokens, output_tokens, estimated_calls
  from ai_usage_days where day < (select summed_from at time zone 'UTC' from ai_usage_summing)
  union all
  select user_id, (created_at at time zone 'UTC')::date, provider, model, 1, input_tokens, output_tokens, estimated::int
  from ai_usage where created_at < (select summed_from from ai_usage_summing);
