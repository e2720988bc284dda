-- Seals get a MAC with a key that is not in the database. Processes of earlier releases can seal no more: their
-- events wait for one of this release.
alter table audit_seals add column mac bytea;

--> statement-breakpoint

create trigger audit_authenticated before insert on audit_seals
  for each row when (new.mac is null) execute function audit_refuse();
