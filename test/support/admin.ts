import type { TestUser } from "./accounts.ts";
import type { TestApp } from "./app.ts";

/** A signed-in administrator. */
export const signInAdmin = async (app: TestApp, given?: TestUser) =>
  app.signIn(given ?? (await app.addUser({ role: "admin" })));

/** Audit events about a user, newest first. */
export async function auditOf(app: TestApp, userId: string, event: string) {
  return app.sql<{ actor_id: string | null; outcome: string; details: Record<string, unknown>; ip: string }>(
    "select actor_id, outcome, details, ip from audit_events where user_id = ? and event = ? order by id desc",
    [userId, event],
  );
}

/** User, outcome and details of an `admin.denied` event. */
type Denial = { user_id: string | null; outcome: string; [detail: string]: unknown };

/** The `admin.denied` events of an actor, oldest first. */
export async function denialsOf(app: TestApp, actorId: string): Promise<Denial[]> {
  const rows = await app.sql<Denial & { details: object }>(
    "select user_id, outcome, details from audit_events where event = 'admin.denied' and actor_id = ? order by id",
    [actorId],
  );
  return rows.map(({ user_id, outcome, details }) => ({ user_id, outcome, ...details }));
}
