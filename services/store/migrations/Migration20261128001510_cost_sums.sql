-- Sums of costs, beside those of tokens. Calls without a cost are not counted as priced.
alter table ai_usage_models
  add column cached_input_tokens bigint not null default 0,
  add column reasoning_tokens bigint not null default 0,
  add column cost_nanos bigint not null default 0,
  add column priced_calls bigint not null default 0;

--> statement-breakpoint

alter table ai_usage_users
  add column cached_input_tokens bigint not null default 0,
  add column reasoning_tokens bigint not null default 0,
  add column cost_nanos bigint not null default 0,
  add column priced_calls bigint not null default 0;

--> statement-breakpoint

-- As before, with costs. A call that ends with another model is moved to that model with all its numbers.
create or replace function ai_usage_sum_up() returns trigger language plpgsql as $$
declare
  since timestamptz := (select summed_from from ai_usage_summing);
begin
  if tg_op = 'INSERT' then
    insert into ai_usage_users as s (user_id, day, calls, input_tokens, output_tokens, estimated_calls, cached_input_tokens,
      reasoning_tokens, cost_nanos, priced_calls)
    select user_id, (created_at at time zone 'UTC')::date, count(*), sum(input_tokens), sum(output_tokens), sum(estimated::int),
      coalesce(sum(cached_input_tokens), 0), coalesce(sum(reasoning_tokens), 0), coalesce(sum(cost_nanos), 0), count(cost_nanos)
    from added where created_at >= since group by 1, 2 order by 1, 2
    on conflict on constraint ai_usage_users_key do update set
      calls = s.calls + excluded.calls, estimated_calls = s.estimated_calls + excluded.estimated_calls,
      input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens,
      cached_input_tokens = s.cached_input_tokens + excluded.cached_input_tokens,
      reasoning_tokens = s.reasoning_tokens + excluded.reasoning_tokens,
      cost_nanos = s.cost_nanos + excluded.cost_nanos, priced_calls = s.priced_calls + excluded.priced_calls;

    insert into ai_usage_models as s (day, provider, model, calls, input_tokens, output_tokens, estimated_calls, cached_input_tokens,
      reasoning_tokens, cost_nanos, priced_calls)
    select (created_at at time zone 'UTC')::date, provider, model, count(*), sum(input_tokens), sum(output_tokens), sum(estimated::int),
      coalesce(sum(cached_input_tokens), 0), coalesce(sum(reasoning_tokens), 0), coalesce(sum(cost_nanos), 0), count(cost_nanos)
    from added where created_at >= since group by 1, 2, 3 order by 1, 2, 3
    on conflict on constraint ai_usage_models_key do update set
      calls = s.calls + excluded.calls, estimated_calls = s.estimated_calls + excluded.estimated_calls,
      input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens,
      cached_input_tokens = s.cached_input_tokens + excluded.cached_input_tokens,
      reasoning_tokens = s.reasoning_tokens + excluded.reasoning_tokens,
      cost_nanos = s.cost_nanos + excluded.cost_nanos, priced_calls = s.priced_calls + excluded.priced_calls;
  else
    insert into ai_usage_users as s (user_id, day, calls, input_tokens, output_tokens, estimated_calls, cached_input_tokens,
      reasoning_tokens, cost_nanos, priced_calls)
    select n.user_id, (n.created_at at time zone 'UTC')::date, 0, sum(n.input_tokens - o.input_tokens),
      sum(n.output_tokens - o.output_tokens), sum(n.estimated::int - o.estimated::int),
      sum(coalesce(n.cached_input_tokens, 0) - coalesce(o.cached_input_tokens, 0)),
      sum(coalesce(n.reasoning_tokens, 0) - coalesce(o.reasoning_tokens, 0)),
      sum(coalesce(n.cost_nanos, 0) - coalesce(o.cost_nanos, 0)), count(n.cost_nanos) - count(o.cost_nanos)
    from added n join replaced o using (id)
    where n.created_at >= since
      and (n.input_tokens, n.output_tokens, n.estimated, n.cached_input_tokens, n.reasoning_tokens, n.cost_nanos)
        is distinct from (o.input_tokens, o.output_tokens, o.estimated, o.cached_input_tokens, o.reasoning_tokens, o.cost_nanos)
    group by 1, 2 order by 1, 2
    on conflict on constraint ai_usage_users_key do update set
      estimated_calls = s.estimated_calls + excluded.estimated_calls,
      input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens,
      cached_input_tokens = s.cached_input_tokens + excluded.cached_input_tokens,
      reasoning_tokens = s.reasoning_tokens + excluded.reasoning_tokens,
      cost_nanos = s.cost_nanos + excluded.cost_nanos, priced_calls = s.priced_calls + excluded.priced_calls;

    insert into ai_usage_models as s (day, provider, model, calls, input_tokens, output_tokens, estimated_calls, cached_input_tokens,
      reasoning_tokens, cost_nanos, priced_calls)
    select (created_at at time zone 'UTC')::date, provider, model, sum(sign), sum(sign * input_tokens), sum(sign * output_tokens),
      sum(sign * estimated::int), sum(sign * coalesce(cached_input_tokens, 0)), sum(sign * coalesce(reasoning_tokens, 0)),
      sum(sign * coalesce(cost_nanos, 0)), sum(case when cost_nanos is null then 0 else sign end)
    from (
      select n.created_at, change.*
      from added n join replaced o using (id)
      cross join lateral (values
        (1, n.provider, n.model, n.input_tokens, n.output_tokens, n.estimated, n.cached_input_tokens, n.reasoning_tokens, n.cost_nanos),
        (-1, o.provider, o.model, o.input_tokens, o.output_tokens, o.estimated, o.cached_input_tokens, o.reasoning_tokens, o.cost_nanos)
      ) as change (sign, provider, model, input_tokens, output_tokens, estimated, cached_input_tokens, reasoning_tokens, cost_nanos)
      where n.created_at >= since
        and (n.provider, n.model, n.input_tokens, n.output_tokens, n.estimated, n.cached_input_tokens, n.reasoning_tokens, n.cost_nanos)
          is distinct from
            (o.provider, o.model, o.input_tokens, o.output_tokens, o.estimated, o.cached_input_tokens, o.reasoning_tokens, o.cost_nanos)
    ) as changes
    group by 1, 2, 3 order by 1, 2, 3
    on conflict on constraint ai_usage_models_key do update set
      calls = s.calls + excluded.calls, estimated_calls = s.estimated_calls + excluded.estimated_calls,
      input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens,
      cached_input_tokens = s.cached_input_tokens + excluded.cached_input_tokens,
      reasoning_tokens = s.reasoning_tokens + excluded.reasoning_tokens,
      cost_nanos = s.cost_nanos + excluded.cost_nanos, priced_calls = s.priced_calls + excluded.priced_calls;
  end if;
  return null;
end $$;

--> statement-breakpoint

create or replace view ai_usage_unsummed as
  select user_id, day, provider, model, calls, input_tokens, output_tokens, estimated_calls,
    coalesce(cached_input_tokens, 0) as cached_input_tokens, coalesce(reasoning_tokens, 0) as reasoning_tokens,
    coalesce(cost_nanos, 0) as cost_nanos, coalesce(priced_calls, 0) as priced_calls
  from ai_usage_days where day < (select summed_from at time zone 'UTC' from ai_usage_summing)
  union all
  select user_id, (created_at at time zone 'UTC')::date, provider, model, 1, input_tokens, output_tokens, estimated::int,
    coalesce(cached_input_tokens, 0), coalesce(reasoning_tokens, 0), coalesce(cost_nanos, 0), (cost_nanos is not null)::int
  from ai_usage where created_at < (select summed_from from ai_usage_summing);
