import { Migration } from "@mikro-orm/migrations";

/** Everybody's usage is read by its time. */
export class Migration20261121000600_usage extends Migration {
  override async up(): Promise<void> {
    this.addSql("create index ai_usage_created on ai_usage (created_at)");
  }
}
