-- Webhooks, which receive audit events. `position` is that of the last seal whose events are planned. Secrets are
-- encrypted.
create table webhooks (
  id uuid primary key,
  url text not null,
  description varchar(200),
  events text[] not null,
  secret text not null,
  previous_secret text,
  previous_until timestamptz(3),
  position bigint not null,
  failing_since timestamptz(3),
  disabled_at timestamptz(3),
  disabled_reason varchar(16),
  created_at timestamptz(3) not null
);

--> statement-breakpoint

-- One event for one webhook. While it is being sent, `next_attempt_at` is the end of its lease; it is null once nothing is due.
create table webhook_deliveries (
  id uuid primary key,
  webhook_id uuid not null references webhooks (id) on delete cascade,
  event_id uuid not null,
  event varchar(64) not null,
  status varchar(16) not null,
  attempts integer not null default 0,
  queued_at timestamptz(3) not null,
  next_attempt_at timestamptz(3),
  response_status integer,
  last_error text,
  created_at timestamptz(3) not null,
  delivered_at timestamptz(3),
  unique (webhook_id, event_id)
);

--> statement-breakpoint

create index webhook_deliveries_due on webhook_deliveries (webhook_id, next_attempt_at) where next_attempt_at is not null;

--> statement-breakpoint

create index webhook_deliveries_listed on webhook_deliveries (webhook_id, id);
