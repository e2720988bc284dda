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
    failed: p.integer(), // wrong codes presented with an MFA token
  },
});

/** What a token can be used for once: three are mailed, `sign-in` is the MFA token of a login's second step. */
export const ONE_TIME_TOKEN_KINDS = ["verify-email", "change-email", "reset-password", "sign-in"] as const;
export type OneTimeTokenKind = (typeof ONE_TIME_TOKEN_KINDS)[number];

/** A proof that waits for its use: one per user and kind, gone once consumed. Its text is derived, never stored. */
export class OneTimeToken extends table.class {}
table.setClass(OneTimeToken);
