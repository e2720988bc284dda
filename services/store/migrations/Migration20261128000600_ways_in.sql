-- Accounts without a password, and how sessions began. The previous release runs beside it: its accounts have a password,
-- its sessions have no methods. Without a password `password_hash` holds the hash of random bytes, since the previous
-- release compares with it.
alter table users add column has_password boolean not null default true, add column second_factor boolean not null default false;

--> statement-breakpoint

alter table sessions add column methods text[] not null default '{}', add column confirmed_at timestamptz(3),
  add column device_id uuid;
