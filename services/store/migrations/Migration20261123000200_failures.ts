import { Migration } from "@mikro-orm/migrations";

/** Failures in a row are counted across locks, and a cleared lock leaves its time for the rate limit. */
export class Migration20261123000200_failures extends Migration {
  override async up(): Promise<void> {
    this.addSql(
      "alter table attempts add column consecutive integer not null default 0, add column cleared_at timestamptz(3)",
    );
  }
}
