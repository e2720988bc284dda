/** What an operator does without the REST API: the same operations, audited all the same. */
import { randomInt, randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import { readEmailAddress } from "../services/accounts/email-address.ts";
import { bootstrapAdmin } from "../services/admin/bootstrap.ts";
import { updateUser } from "../services/admin/update-user.ts";
import { revokeUserSessions } from "../services/admin/user-sessions.ts";
import { verifyFromCommandLine } from "../services/audit/cli.ts";
import { createPasswords } from "../services/crypto/passwords.ts";
import { readConfig } from "../services/platform/config.ts";
import { ServiceError } from "../services/platform/errors.ts";
import { createLog } from "../services/platform/log.ts";
import { loadEnvFile, systemClock } from "../services/platform/process.ts";
import { openStore } from "../services/store/open-store.ts";
import { grantServiceRole } from "../services/store/schema.ts";
import type { Store } from "../services/store/store.ts";

const USAGE = `npm run admin -- <command>
  promote <e-mail>         makes the account an administrator's; without an account, makes one and prints its password
  unlock <e-mail>          takes the lock of too many wrong passwords or codes off
  end-sessions <e-mail>    ends every session of the account
  verify-audit [--head <position>:<hash>]   finds what was changed in the audit log
  grant-role <role>        gives a PostgreSQL role what the service needs; it can only add to the audit log
While the service runs on its embedded database, nothing else can open that: stop it first.
`;

/** Of a password made here; it holds every kind of character that a password needs. */
const PASSWORD_LENGTH = 24;
const KINDS = ["ABCDEFGHJKMNPQRSTUVWXYZ", "abcdefghjkmnpqrstuvwxyz", "23456789", "-_.+"];

const tell = (line: string) => void process.stdout.write(`${line}\n`);

/** What an operation needs of a call. Nobody is signed in: the trail names the machine's user instead. */
function operatorCall(store: Store) {
  const client = { address: "127.0.0.1", agent: `npm run admin, by ${operator()}` };
  const mailWorker = { wake: () => {}, close: async () => {} }; // the service finds what is queued
  return {
    em: store.fork(),
    clock: systemClock,
    client,
    requestId: randomUUID(),
    caller: undefined,
    onComplete: [],
    mailWorker,
  };
}

/** The machine's user. A container may run as one that has a number only. */
function operator(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.getuid?.()}`;
  }
}

async function promote(store: Store, email: string): Promise<void> {
  const isOne = `${email} is an administrator now.`;
  const user = await find(store, email);
  if (user) {
    await updateUser(operatorCall(store), user.id, { role: "admin" });
    return tell(
      user.verified ? isOne : `${isOne} The address was never confirmed: whoever registered it signs in to it.`,
    );
  }
  const password = randomPassword();
  const hasPassword = await bootstrapAdmin(
    { ...operatorCall(store), passwords: await createPasswords() },
    { email, password },
  );
  tell(hasPassword ? `${isOne} The account's password, shown once: ${password}` : isOne);
}

async function unlock(store: Store, email: string): Promise<void> {
  await updateUser(operatorCall(store), await need(store, email), { locked: false });
  tell(`${email} can sign in again.`);
}

async function endSessions(store: Store, email: string): Promise<void> {
  tell(`${await revokeUserSessions(operatorCall(store), await need(store, email))} sessions of ${email} have ended.`);
}

async function grantRole(store: Store, role: string): Promise<void> {
  await grantServiceRole(store.fork(), role);
  tell(`${role} can serve now. Run this after every migration.`);
}

const commands: Record<string, (store: Store, subject: string) => Promise<void>> = {
  promote,
  unlock,
  "end-sessions": endSessions,
  "grant-role": grantRole,
};

async function find(store: Store, email: string): Promise<{ id: string; verified: boolean } | undefined> {
  const { canonical } = readEmailAddress(email);
  const [user] = await store
    .fork()
    .execute<{ id: string; verified: boolean }[]>(
      "select id, email_verified_at is not null as verified from users where canonical_email = ?",
      [canonical],
    );
  return user;
}

async function need(store: Store, email: string): Promise<string> {
  const user = await find(store, email);
  if (!user) throw new Error(`No account has the address ${email}.`);
  return user.id;
}

function randomPassword(): string {
  const all = KINDS.join("");
  const pick = (from: string) => from[randomInt(from.length)] as string;
  const picked = [...KINDS, ...Array<string>(PASSWORD_LENGTH - KINDS.length).fill(all)].map(pick);
  for (let i = picked.length - 1; i > 0; i--) {
    const j = randomInt(i + 1);
    [picked[i], picked[j]] = [picked[j] as string, picked[i] as string];
  }
  return picked.join("");
}

async function run([name = "", subject, ...rest]: string[]): Promise<void> {
  if (name === "verify-audit") return verifyFromCommandLine(process.argv.slice(3), process.env);
  const command = commands[name];
  if (!command || !subject || rest.length > 0) {
    process.stderr.write(USAGE);
    process.exitCode = 2;
    return;
  }
  const read = readConfig(process.env);
  if ("problems" in read) throw new Error(read.problems.join("\n"));
  const store = await openStore(read.config.database, createLog("warn"));
  try {
    if (read.config.migrate && name !== "grant-role") await store.migrate();
    await command(store, subject);
  } finally {
    await store.close();
  }
}

loadEnvFile(process.env);
try {
  await run(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof Error)) throw error;
  process.stderr.write(`${error instanceof ServiceError ? error.message : `It didn't work: ${error.message}`}\n`);
  process.exitCode = 2;
}
