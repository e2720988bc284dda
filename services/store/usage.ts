import { defineEntity, p } from "@mikro-orm/core";

const table = defineEntity({
  name: "Usage",
  tableName: "ai_usage",
  properties: {
    id: p.uuid().primary(),
    userId: p.uuid().nullable(), // null once the account is erased
    provider: p.string(),
    model: p.string(),
    outcome: p.string(), // `running` until settled, then `completed`, `cancelled`, or the kind of failure
    inputTokens: p.integer(),
    outputTokens: p.integer(),
    estimated: p.boolean(), // the provider did not report the tokens
    latencyMs: p.integer().nullable(),
    firstChunkMs: p.integer().nullable(),
    createdAt: p.datetime(),
  },
});

/** What one AI call cost; message text is never kept. */
export class Usage extends table.class {}
table.setClass(Usage);
