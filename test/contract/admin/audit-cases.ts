import type { TestUser } from "../../support/accounts.ts";

export const wrong = "Wrong-1-guess";

/** A request, ready to be sent. */
export type AuditedRequest = { method: string; path: string; body?: unknown; token?: string; cookie?: string };
/** The expected events, their user and actor, and the details by event. */
type ExpectedAudit = { events: string[]; user?: string; actor?: string; details?: Record<string, object> };
export type Case = { request: AuditedRequest; expected: ExpectedAudit };

export const post = (path: string, body?: unknown, token?: string): AuditedRequest => ({
  method: "POST",
  path,
  ...(body !== undefined && { body }),
  ...(token !== undefined && { token }),
});
export const own = (user: TestUser, ...events: string[]): ExpectedAudit => ({ events, user: user.id, actor: user.id });
export const failed = (user: TestUser, ...events: string[]): ExpectedAudit => ({ events, user: user.id });
export const withDetails = (details: Record<string, object>, expected: ExpectedAudit) => ({ ...expected, details });
export const nothing: ExpectedAudit = { events: [] };

/** Cases by the name of the method, with the circumstances where they matter. */
export type AuditCases = Record<string, () => Promise<Case>>;
