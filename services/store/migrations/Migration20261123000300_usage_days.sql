-- Old usage is kept as daily totals. Totals of erased users may repeat a key, so that erasing a user merges nothing.
create table ai_usage_days (
  user_id uuid references users (id) on delete set null,
  day date not null,
  provider varchar(64) not null,
  model varchar(128) not null,
  calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  estimated_calls bigint not null,
  constraint ai_usage_days_key unique (user_id, day, provider, model)
);

--> statement-breakpoint

create index ai_usage_days_day on ai_usage_days (day);
