-- The version of a day of calls. Whatever changes a call also updates a sum of its day, and `xmin` is the transaction that
-- has written this version of a row. So a day with the same version has the same calls.
create view ai_usage_day_versions as
  select day, string_agg(xmin::text, ' ' order by provider, model) as version from ai_usage_models group by day;

--> statement-breakpoint

-- Days that are over, whose calls are summed up by API key and by alias. The sums count while the day has this version.
create table ai_usage_closed_days (day date primary key, version text not null);

--> statement-breakpoint

create table ai_usage_keys (
  api_key_id uuid not null,
  day date not null,
  -- The owner. When it is erased, its calls have no key any more.
  user_id uuid references users (id) on delete cascade,
  calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  estimated_calls bigint not null,
  cached_input_tokens bigint not null,
  reasoning_tokens bigint not null,
  cost_nanos bigint not null,
  priced_calls bigint not null
);

--> statement-breakpoint

create index ai_usage_keys_key on ai_usage_keys (api_key_id, day);

--> statement-breakpoint

create index ai_usage_keys_day on ai_usage_keys (day) include (api_key_id, input_tokens, output_tokens, calls);

--> statement-breakpoint

create index ai_usage_keys_user on ai_usage_keys (user_id);

--> statement-breakpoint

create table ai_usage_aliases (
  alias varchar(128) not null,
  day date not null,
  calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  estimated_calls bigint not null,
  cached_input_tokens bigint not null,
  reasoning_tokens bigint not null,
  cost_nanos bigint not null,
  priced_calls bigint not null,
  primary key (alias, day)
);

--> statement-breakpoint

-- Periods that end with a day that is over, and the users with the most tokens of each. Everybody else has at most `others`.
create table ai_usage_rankings (first_day date primary key, last_day date not null, others bigint not null);

--> statement-breakpoint

create table ai_usage_ranked_users (
  user_id uuid not null references users (id) on delete cascade,
  first_day date not null references ai_usage_rankings (first_day) on delete cascade,
  tokens bigint not null,
  primary key (user_id, first_day)
);

--> statement-breakpoint

create index ai_usage_ranked_users_tokens on ai_usage_ranked_users (first_day, tokens desc) include (user_id);

--> statement-breakpoint

-- The versions of the days from which the rankings were made.
create table ai_usage_ranked_days (day date primary key, version text not null);

--> statement-breakpoint

-- When a process has last begun to make the rankings.
alter table ai_usage_summing add column ranked_at timestamptz;
