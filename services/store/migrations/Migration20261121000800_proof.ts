import { Migration } from "@mikro-orm/migrations";

/** An address that isn't verified now may belong to an account whose owner has proved one before. */
export class Migration20261121000800_proof extends Migration {
  override async up(): Promise<void> {
    this.addSql("alter table users add column was_verified boolean not null default false");
  }
}
