import { Migration } from "@mikro-orm/migrations";

/** Tickets and backup codes of the second factor, and what background work looks for. */
export class Migration20261121000100_identity extends Migration {
  override async up(): Promise<void> {
    this.addSql("alter table one_time_tokens add column failed integer not null default 0");
    this.addSql(`
      create table backup_codes (
        user_id uuid not null references users (id) on delete cascade,
        digest varchar(43) not null,
        primary key (user_id, digest)
      )`);
    this.addSql("create index users_deletion on users (deletion_at) where deletion_at is not null");
    this.addSql("alter table users set (fillfactor = 80)"); // sign-ins stay heap-only updates
  }
}
