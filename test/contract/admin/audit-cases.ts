import type { TestUser } from "../../support/accounts.ts";

export const wrong = "Wrong-1-guess";

/** A request, ready to be sent. */
export type AuditedRequest = { method: string; path: string; body?: unknown; token?: string; cookie?: string };
/**
 * What a request must leave in the audit log, beside where it came from: whom it happened to, who did it, and, by event,
 * what else is told.
 */
export type ExpectedAudit = { events: string[]; user?: string; actor?: string; details?: Record<string, object> };
export type Case = { deed: AuditedRequest; trail: ExpectedAudit };

export const post = (path: string, body?: unknown, token?: string): AuditedRequest => ({
  method: "POST",
  path,
  ...(body !== undefined && { body }),
  ...(token !== undefined && { token }),
});
export const own = (user: TestUser, ...events: string[]): ExpectedAudit => ({ events, user: user.id, actor: user.id });
export const failed = (user: TestUser, ...events: string[]): ExpectedAudit => ({ events, user: user.id });
export const telling = (details: Record<string, object>, trail: ExpectedAudit): ExpectedAudit => ({
  ...trail,
  details,
});
export const nothing: ExpectedAudit = { events: [] };

/** The ways of each method that are audited differently, by its name. */
export type AuditCases = Record<string, Record<string, () => Promise<Case>>>;
