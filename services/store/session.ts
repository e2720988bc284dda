import { defineEntity, p } from "@mikro-orm/core";
import { User } from "./user.ts";

const table = defineEntity({
  name: "Session",
  tableName: "sessions",
  properties: {
    id: p.uuid().primary(),
    user: () => p.manyToOne(User).ref(),
    generation: p.integer(), // grows by one with each refresh; a token carries its own
    rotatedAt: p.datetime(),
    successorUsed: p.boolean().name("acknowledged"), // the current pair has been seen in use: the grace is over
    device: p.string(),
    ip: p.string(),
    location: p.string().nullable(),
    actorId: p.uuid().nullable(), // the administrator who impersonates
    actorSessionId: p.uuid().nullable(), // whose end ends this one
    createdAt: p.datetime(),
    lastActiveAt: p.datetime(),
    expiresAt: p.datetime(), // moves with each refresh, as far as the end
    endsAt: p.datetime(), // never moves
    revokedAt: p.datetime().nullable(),
  },
});

/** One signed-in device. The row is all that is kept of its tokens: they are rebuilt, never stored. */
export class Session extends table.class {}
table.setClass(Session);
