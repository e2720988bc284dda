-- Identities: accounts at sign-in providers that are connected to a user. Identified by issuer and subject, since the
-- address may change.
create table identities (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  provider varchar(32) not null,
  issuer varchar(512) not null,
  subject varchar(255) not null,
  email varchar(254),
  created_at timestamptz(3) not null,
  last_used_at timestamptz(3),
  constraint identities_issuer_subject_unique unique (issuer, subject)
);

--> statement-breakpoint

create index identities_user on identities (user_id, created_at);
