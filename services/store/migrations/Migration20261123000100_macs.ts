import { Migration } from "@mikro-orm/migrations";

/**
 * Seals get a MAC with a key that is not in the database. Processes of earlier releases can seal no more: their events
 * wait for one of this release.
 */
export class Migration20261123000100_macs extends Migration {
  override async up(): Promise<void> {
    this.addSql("alter table audit_seals add column mac bytea");
    this.addSql(`
      create trigger audit_authenticated before insert on audit_seals
        for each row when (new.mac is null) execute function audit_refuse()`);
  }
}
