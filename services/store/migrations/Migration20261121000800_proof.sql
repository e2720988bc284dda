-- The other tables of release 0.1. Its databases have recorded this migration name.
--
-- The fill factor keeps sign-ins heap-only updates.
create table users (
  id uuid primary key,
  email varchar(254) not null,
  canonical_email varchar(254) not null,
  name text not null,
  bio text,
  role varchar(16) not null default 'user',
  password_hash text not null,
  password_changed_at timestamptz(3) not null,
  email_verified_at timestamptz(3),
  terms_accepted_at timestamptz(3) not null,
  mfa_secret text,
  mfa_confirmed_at timestamptz(3),
  mfa_last_step integer,
  last_login_at timestamptz(3),
  deletion_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  was_verified boolean not null default false,
  constraint users_canonical_email_unique unique (canonical_email)
) with (fillfactor = 80);

--> statement-breakpoint

create index users_deletion on users (deletion_at) where deletion_at is not null;

--> statement-breakpoint

create index users_role on users (role, id);

--> statement-breakpoint

create index users_verified on users (id) where email_verified_at is not null;

--> statement-breakpoint

create index users_unverified on users (id) where email_verified_at is null;

--> statement-breakpoint

-- Refreshes change no indexed column and find room on the page, which keeps them heap-only updates.
create table sessions (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  generation integer not null default 0,
  rotated_at timestamptz(3) not null,
  acknowledged boolean not null default true,
  device varchar(200) not null,
  ip varchar(45) not null,
  location varchar(200),
  actor_id uuid,
  actor_session_id uuid references sessions (id) on delete cascade,
  created_at timestamptz(3) not null,
  last_active_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  ends_at timestamptz(3) not null,
  revoked_at timestamptz(3)
) with (fillfactor = 50);

--> statement-breakpoint

create index sessions_user on sessions (user_id, created_at);

--> statement-breakpoint

create index sessions_actor_session on sessions (actor_session_id) where actor_session_id is not null;

--> statement-breakpoint

create table one_time_tokens (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  kind varchar(32) not null,
  email varchar(254) not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  failed integer not null default 0,
  constraint one_time_tokens_newest_only unique (user_id, kind)
);

--> statement-breakpoint

create table emails (
  id uuid primary key,
  user_id uuid references users (id) on delete set null,
  "to" varchar(254) not null,
  template varchar(64) not null,
  facts jsonb not null,
  token_id uuid,
  status varchar(16) not null,
  attempts integer not null default 0,
  last_error text,
  created_at timestamptz(3) not null,
  sent_at timestamptz(3),
  next_attempt_at timestamptz(3),
  retried_at timestamptz(3)
);

--> statement-breakpoint

create index emails_due on emails (next_attempt_at, id) where next_attempt_at is not null;

--> statement-breakpoint

-- Every list filter has an index that includes the id, so that pages can be read in order, newest first.
create index emails_user on emails (user_id, id);

--> statement-breakpoint

create index emails_to on emails (lower("to"), id);

--> statement-breakpoint

create index emails_template on emails (template, id);

--> statement-breakpoint

create index emails_status on emails (status, id, template);

--> statement-breakpoint

create table attempts (
  kind varchar(16) not null,
  subject varchar(254) not null,
  reserved integer not null default 0,
  failed integer not null default 0,
  reserved_at timestamptz(3) not null,
  failed_at timestamptz(3),
  locked_until timestamptz(3),
  primary key (kind, subject)
) with (fillfactor = 70);

--> statement-breakpoint

create index attempts_locked on attempts (locked_until) where locked_until is not null;

--> statement-breakpoint

create table signing_keys (
  kid varchar(64) primary key,
  public_key text not null,
  private_key text not null,
  created_at timestamptz(3) not null,
  active_at timestamptz(3) not null
);

--> statement-breakpoint

create table ai_usage (
  id uuid primary key,
  user_id uuid references users (id) on delete set null,
  provider varchar(64) not null,
  model varchar(128) not null,
  outcome varchar(32) not null,
  input_tokens integer not null default 0,
  output_tokens integer not null default 0,
  estimated boolean not null default true,
  latency_ms integer,
  first_chunk_ms integer,
  created_at timestamptz(3) not null
);

--> statement-breakpoint

create index ai_usage_user on ai_usage (user_id, created_at);

--> statement-breakpoint

create index ai_usage_created on ai_usage (created_at);

--> statement-breakpoint

create table backup_codes (
  user_id uuid not null references users (id) on delete cascade,
  digest varchar(43) not null,
  primary key (user_id, digest)
);
