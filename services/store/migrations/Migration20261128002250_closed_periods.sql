-- The calls of days that are over, by hour (UTC). They count like the sums by API key and alias. Days are closed again.
create table ai_usage_hours (
  day date not null,
  hour timestamp not null,
  provider varchar(64) not null,
  model varchar(128) not null,
  calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost_nanos bigint not null,
  priced_calls bigint not null,
  primary key (day, hour, provider, model)
);

--> statement-breakpoint

delete from ai_usage_closed_days;

--> statement-breakpoint

-- Periods of days that are over, whose calls are summed up by API key. The sums count while all of their days have this version.
create table ai_usage_closed_periods (
  first_day date not null,
  last_day date not null,
  version text not null,
  primary key (first_day, last_day)
);

--> statement-breakpoint

create table ai_usage_key_periods (
  api_key_id uuid not null,
  -- The owner. When it is erased, its calls have no key any more.
  user_id uuid references users (id) on delete cascade,
  first_day date not null,
  last_day date not null,
  tokens bigint not null,
  calls bigint not null,
  foreign key (first_day, last_day) references ai_usage_closed_periods on delete cascade
);

--> statement-breakpoint

create index ai_usage_key_periods_period on ai_usage_key_periods (first_day, last_day) include (api_key_id, tokens, calls);

--> statement-breakpoint

create index ai_usage_key_periods_user on ai_usage_key_periods (user_id);

--> statement-breakpoint

-- Rankings may also end on earlier days. They are made again.
delete from ai_usage_rankings;

--> statement-breakpoint

update ai_usage_summing set ranked_at = null;

--> statement-breakpoint

alter table ai_usage_ranked_users
  drop constraint ai_usage_ranked_users_first_day_fkey,
  drop constraint ai_usage_ranked_users_pkey,
  add column last_day date not null,
  add primary key (user_id, first_day, last_day);

--> statement-breakpoint

alter table ai_usage_rankings drop constraint ai_usage_rankings_pkey, add primary key (first_day, last_day);

--> statement-breakpoint

alter table ai_usage_ranked_users
  add foreign key (first_day, last_day) references ai_usage_rankings on delete cascade;

--> statement-breakpoint

drop index ai_usage_ranked_users_tokens;

--> statement-breakpoint

create index ai_usage_ranked_users_ranking on ai_usage_ranked_users (first_day, last_day) include (user_id, tokens);
