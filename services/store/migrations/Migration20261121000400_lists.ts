import { Migration } from "@mikro-orm/migrations";

/**
 * Makes the index of searches, unless it is there. Where the extension can't be had, searching still works, by reading.
 * It may be in a schema that is not searched.
 */
export const USERS_SEARCH = `
  do $$ begin
    if to_regclass('users_search') is not null then return; end if;
    create extension if not exists pg_trgm;
    execute format('create index users_search on users using gin
      ((lower(email) || chr(10) || lower(name)) %s.gin_trgm_ops) with (fastupdate = off)',
      (select extnamespace::regnamespace from pg_extension where extname = 'pg_trgm'));
  exception when undefined_file or feature_not_supported or insufficient_privilege then
    raise notice 'pg_trgm is not available: searching users reads the table';
  end $$`;

/** Every filter of the administrators' lists has an index that ends in the id: pages come in order, newest first. */
export class Migration20261121000400_lists extends Migration {
  override async up(): Promise<void> {
    this.addSql("create index users_role on users (role, id)");
    this.addSql("create index users_verified on users (id) where email_verified_at is not null");
    this.addSql("create index users_unverified on users (id) where email_verified_at is null");
    this.addSql("create index attempts_locked on attempts (locked_until) where locked_until is not null");
    this.addSql(USERS_SEARCH);
    this.addSql("alter table emails add column retried_at timestamptz(3)"); // an administrator queued it again
    this.addSql("drop index emails_user");
    this.addSql("create index emails_user on emails (user_id, id)");
    this.addSql(`create index emails_to on emails (lower("to"), id)`);
    this.addSql("create index emails_template on emails (template, id)");
    this.addSql("create index emails_status on emails (status, id)");
  }
}
