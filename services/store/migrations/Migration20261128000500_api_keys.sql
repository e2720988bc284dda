-- A service account never signs in: administrators create its API keys.
alter table users add column is_service boolean not null default false;

--> statement-breakpoint

-- Only the digest of a key is stored, and a hint for telling keys apart.
create table api_keys (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  digest bytea not null unique,
  hint varchar(16) not null,
  name varchar(100) not null,
  models text[],
  requests_per_minute integer,
  created_at timestamptz(3) not null,
  created_by uuid not null,
  expires_at timestamptz(3),
  last_used_at timestamptz(3),
  last_used_ip varchar(45),
  revoked_at timestamptz(3)
);

--> statement-breakpoint

create index api_keys_user_id on api_keys (user_id, id);

--> statement-breakpoint

-- The key of a call. It is not a foreign key, so that an erasure need not find the calls of each key.
alter table ai_usage add column api_key_id uuid;
