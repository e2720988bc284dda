import { Migration } from "@mikro-orm/migrations";

/** Indexes know what filters are combined with, so that what does not match is passed over without reading its row. */
export class Migration20261121000700_scale extends Migration {
  override async up(): Promise<void> {
    this.addSql("drop index audit_events_user, audit_events_actor, emails_status");
    this.addSql("create index audit_events_user on audit_events (user_id, id, event)");
    this.addSql("create index audit_events_actor on audit_events (actor_id, id, event, user_id)");
    this.addSql("create index emails_status on emails (status, id, template)");
  }
}
