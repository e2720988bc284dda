import { defineEntity, p } from "@mikro-orm/core";
import { User } from "./user.ts";

const table = defineEntity({
  name: "OneTimeToken",
  tableName: "one_time_tokens",
  properties: {
    id: p.uuid().primary(),
    user: () => p.manyToOne(User).ref(),
    kind: p.string().$type<OneTimeTokenKind>(),
    email: p.string(), // the address the token was mailed to, and proves
    createdAt: p.datetime(),
    expiresAt: p.datetime(),
  },
});

/** What a mailed token can be used for. */
export type OneTimeTokenKind = "verify-email" | "change-email" | "reset-password";

/** A mailed proof that waits for its use: one per user and kind, gone once consumed. Its text is derived, never stored. */
export class OneTimeToken extends table.class {}
table.setClass(OneTimeToken);
