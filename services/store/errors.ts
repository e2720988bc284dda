import { UniqueConstraintViolationException } from "@mikro-orm/core";

/**
 * Codes for: the database did not reply, is shutting down, is read-only, was too busy, or has failed
 * at its disk (PostgreSQL appendix A, errno).
 */
const UNAVAILABLE_CODES =
  /^(08...|25006|25P0[34]|40001|40P01|53...|55P03|57014|57P0[1235]|58...|ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/;
const UNAVAILABLE_MESSAGES =
  /connection terminated|timeout exceeded when trying to connect|connection timeout|query read timeout|client has encountered a connection error|not queryable/i;

/**
 * Codes for a missing prepared statement, after `discard all` or behind a pooler, or one whose name
 * is already used (PostgreSQL appendix A).
 */
const STALE_CODES = /^(26000|42P05)$/;

/**
 * Codes of rejected connections: wrong user or password, no such database, or dropped meanwhile. In
 * a running process the cause is at the server, such as a changed password.
 */
const REJECTED_CODES = /^(28...|3D000|57P04)$/;
/**
 * Severities of errors that end the session, whatever their code (PostgreSQL documentation, "Error
 * and Notice Message Fields"). Some servers translate them, but not these codes.
 */
const ENDS_SESSION = /^(FATAL|PANIC)$/;

type DatabaseError = Error & {
  code?: unknown;
  syscall?: unknown;
  routine?: unknown;
  severity?: unknown;
};

/** An error and its causes. The ORM calls them `previous`. */
function* causesOf(error: unknown): Generator<DatabaseError> {
  for (let e = error; e instanceof Error; e = e.cause ?? (e as { previous?: unknown }).previous)
    yield e;
}

/**
 * Whether an error means that the database is unavailable or busy, so that retrying later makes
 * sense.
 */
export const isDatabaseUnavailable = (error: unknown): boolean =>
  isUnreachable(error) ||
  [...causesOf(error)].some(
    ({ code, severity }) =>
      REJECTED_CODES.test(String(code)) || ENDS_SESSION.test(String(severity)),
  );

/** The same, unless the database has rejected the connection. */
function isUnreachable(error: unknown): boolean {
  for (const { code, syscall, message } of causesOf(error)) {
    if (syscall === "connect") return true; // for any cause, such as a missing socket file or no file descriptors left
    if (
      (typeof code === "string" && UNAVAILABLE_CODES.test(code)) ||
      UNAVAILABLE_MESSAGES.test(message)
    )
      return true;
  }
  return false;
}

/**
 * Whether a connection can't use a prepared statement: it no longer exists, or a schema change has
 * changed its result type ("cached plan must not change result type", which servers translate). The
 * statement was not executed.
 */
export function isStaleStatement(error: unknown): boolean {
  return [...causesOf(error)].some(
    ({ code, routine }) =>
      (typeof code === "string" && STALE_CODES.test(code)) ||
      (code === "0A000" && routine === "RevalidateCachedQuery"),
  );
}

/**
 * Whether a schema change was cancelled because it would have blocked others. It should be retried
 * later.
 */
export const isLockTimeout = (error: unknown): boolean =>
  (error as { code?: unknown }).code === "55P03";

/** Whether the server has ended a statement because of a deadlock. */
export const isDeadlock = (error: unknown): boolean =>
  (error as { code?: unknown }).code === "40P01";

/**
 * Whether a schema change failed because another process was changing the same object. PostgreSQL
 * reports it as an internal error, with no code of its own.
 */
export const isConcurrentChange = (error: unknown): boolean => {
  const { code, message } = error as { code?: unknown; message?: string };
  return code === "XX000" && /tuple concurrently (updated|deleted)/.test(message ?? "");
};

/** Whether the database role lacks the required privilege. */
export const lacksPrivilege = (error: unknown): boolean =>
  (error as { code?: unknown }).code === "42501";

/**
 * Whether an error means that a row with this unique key already exists.
 * @param constraint name of the unique constraint
 */
export const isDuplicate = (error: unknown, constraint: string): boolean =>
  error instanceof UniqueConstraintViolationException &&
  "constraint" in error &&
  error.constraint === constraint;

/**
 * An error in a form that may be logged: a database error without the statement, values and rows
 * that it quotes.
 */
export function redactDatabaseError(error: unknown): unknown {
  if (!(error instanceof Error) || !("severity" in error)) return error;
  const {
    name: type,
    message,
    stack,
    code,
    table,
    column,
    constraint,
  } = error as Error & Record<string, unknown>;
  const frames = stack?.split("\n").filter((line) => /^ +at /.test(line));
  return {
    type,
    message: message.split("\n", 1)[0],
    code,
    table,
    column,
    constraint,
    stack: frames?.join("\n"),
  };
}

/**
 * A startup error that names the variable to check. It quotes users, hosts and folders, never
 * a password.
 */
export function startupError(variable: string, error: unknown): Error {
  const { message } = error as Error;
  const describe = (problem: string, remedy: string) =>
    new Error(`${variable}: ${problem}: ${message}. ${remedy}`, { cause: error });
  if (/unsupported startup parameter/.test(message)) {
    const remedy = "Let it ignore the startup parameters statement_timeout and options.";
    return describe("the connection pooler rejects our settings", remedy);
  }
  if (lacksPrivilege(error)) {
    const remedy =
      "Make it the owner, or let the owner run npm run migrate and npm run admin -- grant-role.";
    return describe("the role lacks a privilege", remedy);
  }
  if (!isUnreachable(error))
    return new Error(`${variable} can't be used: ${message}`, { cause: error });
  return "severity" in (error as Error) // PostgreSQL's own message
    ? describe(
        "the database currently refuses connections",
        "Try again later, or check the server.",
      )
    : describe("the database is not reachable", `Start it, or correct ${variable}.`);
}

/** Rethrows a startup error as one that names DATABASE_URL. */
export function asDatabaseUrlError(error: unknown): never {
  throw startupError("DATABASE_URL", error);
}
