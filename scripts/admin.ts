/** Commands for operators: the operations of the REST API, recorded in the audit log too. */
import { randomInt, randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import { readEmailAddress } from "../services/accounts/email-address.ts";
import { bootstrapAdmin } from "../services/admin/bootstrap.ts";
import { revokeUserSessions, updateUser } from "../services/admin/manage-user.ts";
import { recordAudit } from "../services/audit/record.ts";
import { systemCall } from "../services/call.ts";
import { type Cipher, openExistingCipher } from "../services/crypto/cipher.ts";
import { createPasswords } from "../services/crypto/passwords.ts";
import { type Config, requireConfig } from "../services/platform/config.ts";
import { ServiceError } from "../services/platform/errors.ts";
import { createLog } from "../services/platform/log.ts";
import { loadEnvFile, systemClock } from "../services/platform/process.ts";
import { addSigningKey, openKeyRing } from "../services/sessions/key-ring.ts";
import { openStore } from "../services/store/open-store.ts";
import { checkSchema, grantServiceRole } from "../services/store/schema.ts";
import { endAllTokens } from "../services/store/sessions.ts";
import type { Store } from "../services/store/store.ts";
import { verifyFromCommandLine } from "./audit/report.ts";

const USAGE = `npm run admin -- <command>
  promote <e-mail>         makes an account an administrator; creates it if there is none, and prints its password
  unlock <e-mail>          removes the lock after too many wrong passwords or codes
  disable-mfa <e-mail>     removes the second factor of an account whose owner has lost it
  end-sessions <e-mail>    ends all sessions of an account
  verify-audit [--head <position>:<hash>]   finds changes to the audit log
  after-restore            ends all sessions, mailed links and signing keys of a restored backup, before the start
  rotate-keys              adds a signing key, which signs tokens an hour later; no session ends
  grant-role <role>        grants a PostgreSQL role what the service needs: no change to recorded audit events
Stop the service first if it runs on its embedded database: only one process can open that.
`;

/** Length of a generated password, and the kinds of characters that it must contain. */
const PASSWORD_LENGTH = 24;
const KINDS = ["ABCDEFGHJKMNPQRSTUVWXYZ", "abcdefghjkmnpqrstuvwxyz", "23456789", "-_.+"];

const print = (line: string) => void process.stdout.write(`${line}\n`);

/**
 * The call of an operator. There is no caller: the audit log names the user of the machine instead.
 */
function operatorCall(store: Store, config: Config) {
  const mailWorker = { wake: () => {}, close: async () => {} }; // the service sends queued e-mails
  const context = { config, clock: systemClock, mailWorker };
  return systemCall(context, store, randomUUID(), `npm run admin, by ${operator()}`);
}

/** The user of the machine. In a container it may have only a number. */
function operator(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.getuid?.()}`;
  }
}

async function promote(store: Store, email: string, config: Config): Promise<void> {
  const promoted = `${email} is an administrator now.`;
  const user = await find(store, email);
  if (user) {
    await updateUser(operatorCall(store, config), user.id, { role: "admin" });
    return print(
      user.verified
        ? promoted
        : `${promoted} Its address is not verified: its user may not own the address.`,
    );
  }
  const password = randomPassword();
  const hasPassword = await bootstrapAdmin(
    { ...operatorCall(store, config), passwords: await createPasswords() },
    { email, password },
  );
  print(hasPassword ? `${promoted} The account's password, shown once: ${password}` : promoted);
}

async function unlock(store: Store, email: string, config: Config): Promise<void> {
  await updateUser(operatorCall(store, config), await need(store, email), { locked: false });
  print(`${email} can sign in again.`);
}

async function disableMfa(store: Store, email: string, config: Config): Promise<void> {
  await updateUser(operatorCall(store, config), await need(store, email), { mfaEnabled: false });
  print(
    `${email} signs in without a second factor now. If it had one, the service tells the owner by e-mail.`,
  );
}

async function endSessions(store: Store, email: string, config: Config): Promise<void> {
  print(
    `${await revokeUserSessions(operatorCall(store, config), await need(store, email))} sessions of ${email} have ended.`,
  );
}

async function grantRole(store: Store, role: string): Promise<void> {
  await grantServiceRole(store.fork(), role);
  print(`${role} can serve now. Run this after every migration.`);
}

/**
 * The service's cipher.
 * @throws Error with another `SECRET_KEY`, while there are signing keys that tell
 */
async function openCipher(store: Store, config: Config): Promise<Cipher> {
  const cipher = openExistingCipher(config);
  if (!cipher) throw new Error("SECRET_KEY must be that of the service.");
  await openKeyRing(store, cipher, systemClock, 0);
  return cipher;
}

/**
 * Ends what a restored backup has open again: sessions revoked since, links used since. Accounts
 * stay as in the backup.
 */
async function afterRestore(store: Store, _subject: string, config: Config): Promise<void> {
  await openCipher(store, config);
  const call = operatorCall(store, config);
  const sessions = await call.em.transactional(async () => {
    const ended = await endAllTokens(call, call.clock.now()); // and all signing keys: the next start makes a new one
    await recordAudit(call, "admin.sessions_revoked", {
      userId: undefined,
      details: { sessions: ended, restored: true },
    });
    return ended;
  });
  print(`${sessions} sessions have ended. The service can start.`);
}

async function rotateKeys(store: Store, _subject: string, config: Config): Promise<void> {
  await addSigningKey({ em: store.fork() }, await openCipher(store, config), systemClock.now());
  print(
    "A new key signs from an hour on. The older ones are deleted when their last token has expired.",
  );
}

const commands: Record<string, (store: Store, subject: string, config: Config) => Promise<void>> = {
  promote,
  unlock,
  "disable-mfa": disableMfa,
  "end-sessions": endSessions,
  "after-restore": afterRestore,
  "rotate-keys": rotateKeys,
  "grant-role": grantRole,
};
const WITHOUT_SUBJECT = ["after-restore", "rotate-keys"];

async function find(
  store: Store,
  email: string,
): Promise<{ id: string; verified: boolean } | undefined> {
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

async function run([name = "", subject = "", ...rest]: string[]): Promise<void> {
  if (name === "verify-audit") return verifyFromCommandLine(process.argv.slice(3), process.env);
  const command = commands[name];
  if (!command || (subject === "") !== WITHOUT_SUBJECT.includes(name) || rest.length > 0) {
    process.stderr.write(USAGE);
    process.exitCode = 2;
    return;
  }
  const config = requireConfig(process.env, "command");
  const log = createLog("warn");
  const store = await openStore(config.database, log);
  try {
    if (config.migrate && name !== "grant-role") await store.migrate();
    await checkSchema(store.fork(), log);
    await command(store, subject, config);
  } finally {
    await store.close();
  }
}

loadEnvFile(process.env, 2);
try {
  await run(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof Error)) throw error;
  process.stderr.write(
    `${error instanceof ServiceError ? error.message : `It didn't work: ${error.message}`}\n`,
  );
  process.exitCode = 2;
}
