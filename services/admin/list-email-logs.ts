import type { Call } from "../call.ts";
import type { EmailStatus } from "../store/email.ts";
import { type Page, type PageRequest, readPage, whereIf } from "./page.ts";

/** Which e-mails. */
export type EmailFilter = {
  userId?: string | undefined;
  /** The address, in any case. */
  to?: string | undefined;
  template?: string | undefined;
  status?: EmailStatus | undefined;
};

/** An e-mail and what became of it, neither its text nor its token; times as text. */
export type EmailRow = {
  id: string;
  user_id: string | null;
  to: string;
  template: string;
  status: EmailStatus;
  attempts: number;
  last_error: string | null;
  created_at: string;
  sent_at: string | null;
  next_attempt_at: string | null;
};

/** Lists e-mails, newest first. */
export function listEmailLogs(
  call: Pick<Call, "em">,
  { userId, to, template, status }: EmailFilter,
  request: PageRequest,
): Promise<Page<EmailRow>> {
  const columns = `t.id, t.user_id, t."to", t.template, t.status, t.attempts, t.last_error, t.created_at, t.sent_at,
    t.next_attempt_at`;
  const where = [
    whereIf(userId, "t.user_id = ?"),
    whereIf(to, `lower(t."to") = lower(?)`),
    whereIf(template, "t.template = ?"),
    whereIf(status, "t.status = ?"),
  ];
  return readPage<EmailRow>(call.em, { columns, from: "emails", where }, request);
}
