import { defineEntity, p } from "@mikro-orm/core";

const table = defineEntity({
  name: "AuditEvent",
  tableName: "audit_events",
  properties: {
    id: p.uuid().primary(),
    event: p.string(),
    outcome: p.string().$type<"success" | "failure">(),
    userId: p.uuid().nullable(), // whom it happened to
    actorId: p.uuid().nullable(), // who did it
    ip: p.string(),
    userAgent: p.string(),
    requestId: p.string(),
    details: p.json<Record<string, unknown>>(),
    createdAt: p.datetime(),
  },
});

/** Something that happened to an account; written once, never changed. */
export class AuditEvent extends table.class {}
table.setClass(AuditEvent);
