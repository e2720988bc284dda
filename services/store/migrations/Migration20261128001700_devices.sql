-- Known devices: the browsers and apps that have signed in to an account. The previous release neither reads nor writes
-- them.
create table devices (
  user_id uuid not null references users (id) on delete cascade,
  id uuid not null,
  label varchar(200) not null,
  ip varchar(45) not null,
  location varchar(200),
  created_at timestamptz(3) not null,
  last_used_at timestamptz(3) not null,
  primary key (user_id, id)
);

--> statement-breakpoint

-- When a set of backup codes was created; null for sets of earlier releases.
alter table backup_codes add column created_at timestamptz(3);
