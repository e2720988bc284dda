import type { TestUser } from "../../support/app.ts";

export const wrong = "Wrong-1-guess";

/** A request, ready to be sent. */
export type Deed = { method: string; path: string; body?: unknown; token?: string; cookie?: string };
/**
 * What a request must leave in the audit log, beside where it came from: whom it happened to, who did it, and, by event,
 * what else is told.
 */
export type Trail = { events: string[]; user?: string; actor?: string; details?: Record<string, object> };
export type Case = { deed: Deed; trail: Trail };

export const post = (path: string, body?: unknown, token?: string): Deed => ({
  method: "POST",
  path,
  ...(body !== undefined && { body }),
  ...(token !== undefined && { token }),
});
export const own = (user: TestUser, ...events: string[]): Trail => ({ events, user: user.id, actor: user.id });
export const failed = (user: TestUser, ...events: string[]): Trail => ({ events, user: user.id });
export const telling = (details: Record<string, object>, trail: Trail): Trail => ({ ...trail, details });
export const nothing: Trail = { events: [] };

/** The ways of each method that are audited differently, by its name. */
export type Inventory = Record<string, Record<string, () => Promise<Case>>>;
