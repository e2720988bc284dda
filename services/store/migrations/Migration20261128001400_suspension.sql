-- A suspended user cannot sign in. Processes of the previous release ignore the column: their sign-ins open sessions
-- that this release rejects.
alter table users add column suspended_at timestamptz(3);

--> statement-breakpoint

-- Lists the suspended users. An index on `users` would have to be built while the table is locked.
create table suspended_users (user_id uuid primary key references users (id) on delete cascade);

--> statement-breakpoint

create function user_suspended() returns trigger language plpgsql as $$
begin
  if new.suspended_at is null then
    delete from suspended_users where user_id = new.id;
  else
    insert into suspended_users values (new.id) on conflict do nothing;
  end if;
  return null;
end $$;

--> statement-breakpoint

create trigger user_suspended after update of suspended_at on users for each row
  when ((new.suspended_at is null) <> (old.suspended_at is null)) execute function user_suspended();
