import { defineEntity, p } from "@mikro-orm/core";

const table = defineEntity({
  name: "Email",
  tableName: "emails",
  properties: {
    id: p.uuid().primary(),
    userId: p.uuid().nullable(),
    to: p.string(),
    template: p.string(),
    facts: p.json<Record<string, string>>(), // what the template needs; never a secret
    tokenId: p.uuid().nullable(), // the one-time token that the text carries, rebuilt when it is sent
    status: p.string().$type<EmailStatus>(),
    attempts: p.integer(),
    lastError: p.string().nullable(),
    createdAt: p.datetime(),
    retriedAt: p.datetime().nullable(), // when an administrator queued it again
    sentAt: p.datetime().nullable(),
    nextAttemptAt: p.datetime().nullable(), // when due; while sending, when the lease ends
  },
});

/** How far an e-mail is. */
export type EmailStatus = "queued" | "sending" | "sent" | "failed";

/** One e-mail: the queue's row and the log's row are the same. */
export class Email extends table.class {}
table.setClass(Email);
