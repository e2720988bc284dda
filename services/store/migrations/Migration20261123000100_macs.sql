-- Seals get a MAC whose key is not stored in the database. Processes of earlier releases can no longer seal: their
-- events wait for a process of this release.
alter table audit_seals add column mac bytea;

--> statement-breakpoint

create trigger audit_authenticated before insert on audit_seals
  for each row when (new.mac is null) execute function audit_refuse();
