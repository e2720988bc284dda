-- A suspended user can't sign in. Processes of the previous release do not know it: their sign-ins open sessions that this
-- release refuses.
alter table users add column suspended_at timestamptz(3);

--> statement-breakpoint

create index users_suspended on users (id) where suspended_at is not null;
