import { UniqueConstraintViolationException } from "@mikro-orm/core";

/**
 * Codes of errors that mean: the database did not answer, is going away, takes no writes, or had others in the way
 * (PostgreSQL appendix A, errno).
 */
const UNAVAILABLE_CODES =
  /^(08...|25006|25P0[34]|40001|40P01|53...|55P03|57014|57P0[1235]|ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/;
/** PgBouncer's answer to startup parameters that it does not pass on. */
const REFUSED_SETTINGS = /unsupported startup parameter/;
/** PostgreSQL's insufficient_privilege. */
const INSUFFICIENT_PRIVILEGE = "42501";
const UNAVAILABLE_MESSAGES =
  /connection terminated|timeout exceeded when trying to connect|connection timeout|client has encountered a connection error|not queryable/i;

/** Whether an error means that the database is away or busy with others, so that another try later makes sense. */
export function isDatabaseUnavailable(error: unknown): boolean {
  for (let e = error; e instanceof Error; e = e.cause ?? (e as { previous?: unknown }).previous) {
    const { code, syscall } = e as { code?: unknown; syscall?: unknown };
    if (syscall === "connect") return true; // whatever is in the way: a socket's file is gone, this process has no descriptor left
    if ((typeof code === "string" && UNAVAILABLE_CODES.test(code)) || UNAVAILABLE_MESSAGES.test(e.message)) return true;
  }
  return false;
}

/** Whether an error means that a row with this unique key exists. @param constraint its name. */
export function isDuplicate(error: unknown, constraint: string): boolean {
  return (
    error instanceof UniqueConstraintViolationException && (error as { constraint?: string }).constraint === constraint
  );
}

/**
 * An error as it may be logged. Of one from the database only the code and place are kept: the rest quotes the statement
 * with its values, and the row.
 */
export function redactDatabaseError(error: unknown): unknown {
  if (!(error instanceof Error) || !("severity" in error)) return error;
  const { name: type, message, stack, code, table, column, constraint } = error as Error & Record<string, unknown>;
  const frames = stack?.split("\n").filter((line) => /^ +at /.test(line));
  return { type, message: message.split("\n", 1)[0], code, table, column, constraint, stack: frames?.join("\n") };
}

/**
 * An error at start-up, in a sentence that names the variable to check. The messages of PostgreSQL and Node that it quotes
 * name users, hosts and folders, never a password.
 */
export function startupError(variable: string, error: unknown): Error {
  const { message } = error as Error;
  if (REFUSED_SETTINGS.test(message)) {
    const told = `${variable} leads to a pooler that refuses our settings: ${message}.`;
    return new Error(`${told} Let it ignore the startup parameters statement_timeout and options.`, { cause: error });
  }
  if ((error as { code?: unknown }).code === INSUFFICIENT_PRIVILEGE) {
    const told = `${variable} names a role that may not do this: ${message}.`;
    const remedy = "Let it own the database, or the owner run npm run migrate and npm run admin -- grant-role for it.";
    return new Error(`${told} ${remedy}`, { cause: error });
  }
  if (!isDatabaseUnavailable(error)) return new Error(`${variable} can't be used: ${message}`, { cause: error });
  const told =
    "severity" in (error as Error) // its own words
      ? `a database that doesn't serve us now: ${message}. Try again later, or see to it.`
      : `no database that answers: ${message}. Start it, or correct ${variable}.`;
  return new Error(`${variable} leads to ${told}`, { cause: error });
}

/** Rethrows a start-up error as one that names DATABASE_URL. */
export function asDatabaseUrlError(error: unknown): never {
  throw startupError("DATABASE_URL", error);
}
