import { type Timestamp, timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { AdminService } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { callOf, signedInCallOf } from "../call.ts";
import { sessionMessage } from "../sessions/list-sessions.ts";
import type { EmailStatus } from "../store/email.ts";
import type { Role } from "../store/user.ts";
import { profileOf } from "../user/profile.ts";
import type { AdminUser } from "./admin-user.ts";
import { deleteUser } from "./delete-user.ts";
import { impersonate } from "./impersonate.ts";
import { type AuditRow, listAuditLogs } from "./list-audit-logs.ts";
import { type EmailRow, listEmailLogs } from "./list-email-logs.ts";
import { listUserSessions } from "./list-user-sessions.ts";
import { listUsers } from "./list-users.ts";
import { retryEmail } from "./retry-email.ts";
import { revokeUserSessions } from "./revoke-user-sessions.ts";
import { updateUser } from "./update-user.ts";

/** Messages in, messages out; every decision is made by an operation. */
export const adminHandler: Partial<ServiceImpl<typeof AdminService>> = {
  async listUsers(req, ctx) {
    const page = await listUsers(callOf(ctx), { ...req, role: req.role as Role | undefined }, req);
    return { ...page, items: page.items.map(adminUser) };
  },
  async updateUser(req, ctx) {
    const { id, name, email, role, emailVerified, locked, mfaEnabled } = req;
    const user = await updateUser(callOf(ctx), id, {
      name,
      email,
      role: role as Role | undefined,
      emailVerified,
      locked: locked === undefined ? undefined : false, // the proto's rules let nothing else through
      mfaEnabled: mfaEnabled === undefined ? undefined : false,
    });
    return { message: "The user is updated.", user: adminUser(user) };
  },
  async deleteUser(req, ctx) {
    await deleteUser(callOf(ctx), req.id);
    return { message: "The user is erased." };
  },
  async listUserSessions(req, ctx) {
    const call = signedInCallOf(ctx);
    const sessions = await listUserSessions(call, req.id);
    return { sessions: sessions.map((row) => sessionMessage(row, call)) };
  },
  async revokeUserSessions(req, ctx) {
    const ended = await revokeUserSessions(callOf(ctx), req.id);
    return { message: ended === 1 ? "1 session has ended." : `${ended} sessions have ended.` };
  },
  async listAuditLogs(req, ctx) {
    const filter = { ...req, from: dateOf(req.from), to: dateOf(req.to) };
    const page = await listAuditLogs(callOf(ctx), filter, req);
    return { ...page, items: page.items.map(auditEvent) };
  },
  async listEmailLogs(req, ctx) {
    const page = await listEmailLogs(callOf(ctx), { ...req, status: req.status as EmailStatus | undefined }, req);
    return { ...page, items: page.items.map(emailLog) };
  },
  async retryEmail(req, ctx) {
    await retryEmail(callOf(ctx), req.id);
    return { message: "The e-mail is queued again." };
  },
  async impersonate(req, ctx) {
    const call = signedInCallOf(ctx);
    const { accessToken, user, expiresAt } = await impersonate(call, req.userId, req.reason);
    return { accessToken, user: profileOf(user, call.config), expiresAt: timestampFromDate(expiresAt) };
  },
};

const dateOf = (time: Timestamp | undefined) => time && timestampDate(time);
const time = (text: string) => timestampFromDate(new Date(text));

function adminUser({ createdAt, updatedAt, lastLoginAt, deletionDate, ...user }: AdminUser) {
  return {
    ...user,
    createdAt: timestampFromDate(createdAt),
    updatedAt: timestampFromDate(updatedAt),
    ...(lastLoginAt && { lastLoginAt: timestampFromDate(lastLoginAt) }),
    ...(deletionDate && { deletionDate: timestampFromDate(deletionDate) }),
  };
}

function auditEvent(row: AuditRow) {
  return {
    id: row.id,
    event: row.event,
    outcome: row.outcome,
    ...(row.user_id !== null && { userId: row.user_id }),
    ...(row.actor_id !== null && { actorId: row.actor_id }),
    ip: row.ip,
    userAgent: row.user_agent,
    requestId: row.request_id,
    details: row.details,
    createdAt: time(row.created_at),
  };
}

function emailLog(row: EmailRow) {
  return {
    id: row.id,
    ...(row.user_id !== null && { userId: row.user_id }),
    to: row.to,
    template: row.template,
    status: row.status,
    attempts: row.attempts,
    ...(row.last_error !== null && { lastError: row.last_error }),
    createdAt: time(row.created_at),
    ...(row.sent_at !== null && { sentAt: time(row.sent_at) }),
    ...(row.next_attempt_at !== null && { nextAttemptAt: time(row.next_attempt_at) }),
  };
}
