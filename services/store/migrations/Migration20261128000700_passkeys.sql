-- Passkeys, and completed ceremonies, each of which has an effect only once. Public keys need no encryption.
create table passkeys (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  credential_id bytea not null,
  public_key bytea not null,
  algorithm integer not null,
  sign_count bigint not null,
  transports text[] not null,
  backup_eligible boolean not null,
  backed_up boolean not null,
  aaguid uuid not null,
  rp_id varchar(253) not null,
  name varchar(64) not null,
  created_at timestamptz(3) not null,
  last_used_at timestamptz(3),
  constraint passkeys_credential_id_unique unique (credential_id)
);

--> statement-breakpoint

create index passkeys_user on passkeys (user_id, created_at);

--> statement-breakpoint

create table completed_ceremonies (id uuid primary key, expires_at timestamptz(3) not null);
