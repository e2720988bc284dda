-- Limits on the usage of AI calls in a period. The subject is a role, or the id of a user or of an API key; empty for
-- the deployment.
create table budgets (
  id uuid primary key,
  scope varchar(16) not null,
  subject varchar(64) not null,
  unit varchar(16) not null,
  period varchar(16) not null,
  -- Nano-units (1e-9) of the currency, or tokens.
  limit_amount bigint not null,
  alert_percent smallint not null default 80,
  created_at timestamptz(3) not null,
  constraint budgets_key unique (scope, subject, unit, period)
);

--> statement-breakpoint

-- Usage of a budget in a period, and reservations for calls that have not ended. The subject is the user or the API key
-- that is counted; empty for the deployment. Updates need no new index entries.
create table budget_counters (
  budget_id uuid not null references budgets (id) on delete cascade,
  subject varchar(64) not null,
  period_start date not null,
  used bigint not null default 0,
  reserved bigint not null default 0,
  alerted_at timestamptz(3),
  exceeded_at timestamptz(3),
  constraint budget_counters_key primary key (budget_id, subject, period_start)
) with (fillfactor = 50);

--> statement-breakpoint

create index budget_counters_subject on budget_counters (subject);
