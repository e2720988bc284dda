import { Migration } from "@mikro-orm/migrations";

/**
 * Each guess in progress has an id with its time, so that it expires alone and can be released again. The previous release
 * counts its own in `reserved`.
 */
export class Migration20261123000400_reservations extends Migration {
  override async up(): Promise<void> {
    this.addSql("alter table attempts add column reservations uuid[] not null default '{}'");
  }
}
