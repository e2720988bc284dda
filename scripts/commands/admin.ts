/** Commands for operators: the operations of the REST API, recorded in the audit log too. */

import { randomInt, randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import { readEmailAddress } from "../../services/accounts/email-address.ts";
import { bootstrapAdmin } from "../../services/admin/bootstrap.ts";
import { revokeUserSessions, updateUser } from "../../services/admin/manage-user.ts";
import { recordAudit } from "../../services/audit/record.ts";
import { systemCall } from "../../services/call.ts";
import { type Cipher, createCipher } from "../../services/crypto/cipher.ts";
import { createPasswords } from "../../services/crypto/passwords.ts";
import { type Config, requireConfig } from "../../services/platform/config/config.ts";
import { createAgreedTime } from "../../services/platform/process/agreed-time.ts";
import { systemClock } from "../../services/platform/process/clock.ts";
import { loadEnvFile } from "../../services/platform/process/env-file.ts";
import { ServiceError } from "../../services/platform/rpc/errors.ts";
import { createLog } from "../../services/platform/telemetry/log.ts";
import {
  addSigningKey,
  openKeyRing,
  withdrawSigningKeys,
} from "../../services/sessions/key-ring.ts";
import { revokeAllKeys } from "../../services/store/api-keys.ts";
import { deletePendingSignIns } from "../../services/store/one-time-tokens.ts";
import { openStore } from "../../services/store/open-store.ts";
import { checkSchema, grantServiceRole } from "../../services/store/schema.ts";
import { findSecretKeys } from "../../services/store/secret-keys.ts";
import { endAllTokens, revokeSomeSessions } from "../../services/store/sessions.ts";
import { readDatabaseTime, type Store } from "../../services/store/store.ts";
import { reopenDays } from "../../services/store/usage-rankings.ts";
import { verifyFromCommandLine } from "./audit-report.ts";

const USAGE = `npm run admin -- <command>
  promote <e-mail>         makes an account an administrator; creates it if there is none, and prints its password
  unlock <e-mail>          removes the lock after too many wrong passwords or codes
  disable-mfa <e-mail>     removes the second factor of an account whose owner has lost it
  end-sessions <e-mail>    ends all sessions of an account
  verify-audit [--head <position>:<hash>]   finds changes to the audit log
  after-restore [--keep-api-keys]   ends all sessions, mailed links, signing keys and API keys of a restored backup,
                           before the start. Keep API keys only if none was revoked after the backup
  rotate-keys [--now]      adds a signing key that is used from one hour later; sessions stay open. --now is for a leak:
                           withdraws all signing keys immediately and ends all sessions
  check-providers          makes one short call of a model of each configured AI provider, which costs a little
  grant-role <role>        grants a PostgreSQL role the rights of the service, which cannot change recorded audit events
Stop the service first if it uses the embedded database: only one process can open it.
`;

/** Length of a generated password, and the character classes that it must contain. */
const PASSWORD_LENGTH = 24;
const KINDS = ["ABCDEFGHJKMNPQRSTUVWXYZ", "abcdefghjkmnpqrstuvwxyz", "23456789", "-_.+"];

const print = (line: string) => void process.stdout.write(`${line}\n`);

/**
 * Creates the call of an operator. It has no caller: the audit log names the operating system user.
 */
function operatorCall(store: Store, config: Config) {
  const mailWorker = { wake: () => {}, close: async () => {} }; // the service sends queued e-mails
  const context = { config, clock: systemClock, mailWorker };
  return systemCall(context, store, randomUUID(), `npm run admin, by ${operator()}`);
}

/** Name of the operating system user. In a container the user may have only a number. */
function operator(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.getuid?.()}`;
  }
}

async function promote(store: Store, email: string, config: Config): Promise<void> {
  const promoted = `${email} is now an administrator.`;
  const user = await find(store, email);
  if (user) {
    await updateUser(operatorCall(store, config), user.id, { role: "admin" });
    return print(
      user.verified
        ? promoted
        : `${promoted} The address is not verified, so it may belong to somebody else.`,
    );
  }
  const password = randomPassword();
  const hasPassword = await bootstrapAdmin(
    { ...operatorCall(store, config), passwords: await createPasswords() },
    { email, password },
  );
  print(
    hasPassword ? `${promoted} Password of the new account, shown once: ${password}` : promoted,
  );
}

async function unlock(store: Store, email: string, config: Config): Promise<void> {
  await updateUser(operatorCall(store, config), await need(store, email), { locked: false });
  print(`${email} can sign in again.`);
}

async function disableMfa(store: Store, email: string, config: Config): Promise<void> {
  await updateUser(operatorCall(store, config), await need(store, email), { mfaEnabled: false });
  print(
    `${email} now signs in without a second factor. If there was one, the service notifies the owner by e-mail.`,
  );
}

async function endSessions(store: Store, email: string, config: Config): Promise<void> {
  print(
    `${await revokeUserSessions(operatorCall(store, config), await need(store, email))} sessions of ${email} have ended.`,
  );
}

async function grantRole(store: Store, role: string): Promise<void> {
  await grantServiceRole(store.fork(), role);
  print(`${role} now has the rights of the service. Run this command after every migration.`);
}

/**
 * Creates the cipher of the service.
 * @throws Error if `SECRET_KEY` does not decrypt the stored signing keys
 */
async function openCipher(store: Store, config: Config): Promise<Cipher> {
  const keys = findSecretKeys(config);
  const cipher = keys && createCipher(...keys);
  if (!cipher) throw new Error("SECRET_KEY must be that of the service.");
  await openKeyRing(store, cipher, systemClock, 0);
  return cipher;
}

/**
 * Ends all sessions and mailed links of a restored backup and revokes its API keys, since some were
 * revoked or used after the backup. Accounts stay as they were in it.
 */
async function afterRestore(store: Store, option: string, config: Config): Promise<void> {
  await openCipher(store, config);
  const call = operatorCall(store, config);
  const { sessions, apiKeys } = await call.em.transactional(async () => {
    const now = call.clock.now();
    const sessions = await endAllTokens(call, now); // and deletes all signing keys: the next start creates one
    const apiKeys = option === "" ? await revokeAllKeys(call, now) : 0;
    await reopenDays(call);
    await recordAudit(call, "admin.sessions_revoked", {
      userId: undefined,
      details: { sessions, apiKeys, restored: true },
    });
    return { sessions, apiKeys };
  });
  print(
    `${sessions} sessions have ended, and ${apiKeys} API keys are revoked. The service can start.`,
  );
}

async function rotateKeys(store: Store, option: string, config: Config): Promise<void> {
  const cipher = await openCipher(store, config);
  const { earlier: now } = await createAgreedTime({
    clock: systemClock,
    log: createLog("warn"),
    readDatabaseTime: () => readDatabaseTime({ em: store.fork() }),
  }).compare();
  if (option === "--now") return withdrawKeys(store, config, cipher, now);
  await addSigningKey({ em: store.fork() }, cipher, now);
  print(
    "The new key signs tokens from one hour on. Older keys are deleted when their last token has expired.",
  );
}

/** Maximum number of sessions that one statement ends. */
const SESSIONS_PER_STATEMENT = 5_000;

/**
 * Withdraws the signing keys in a short transaction, which invalidates all existing tokens in all
 * processes. Then ends the sessions in batches.
 */
async function withdrawKeys(
  store: Store,
  config: Config,
  cipher: Cipher,
  now: Date,
): Promise<void> {
  const call = operatorCall(store, config);
  await call.em.transactional(async () => {
    const keys = await withdrawSigningKeys(call, cipher, now);
    await deletePendingSignIns(call);
    await recordAudit(call, "admin.keys_withdrawn", { userId: undefined, details: { keys } });
  });
  const batch = { until: systemClock.now(), limit: SESSIONS_PER_STATEMENT };
  let sessions = 0;
  for (let ended = -1; ended !== 0; sessions += ended)
    ended = await revokeSomeSessions({ em: store.fork() }, now, batch);
  await recordAudit(call, "admin.sessions_revoked", { userId: undefined, details: { sessions } });
  print(
    `All older keys are withdrawn, and a new key signs tokens within a second. ${sessions} sessions have ended: all users must sign in again.`,
  );
}

/** Calls each AI provider once. Needs no database. The exit code is 1 if a call has failed. */
async function printProviderChecks(): Promise<void> {
  const { checkProviders } = await import("../../services/ai/check-providers.ts");
  for await (const check of checkProviders(requireConfig(process.env, "command"))) {
    if (!check.isConfigured) {
      print(`${check.provider}: not configured, since ${check.missing} is missing`);
      continue;
    }
    const { provider, model, ms, failure } = check;
    print(`${provider}: ${model} ${failure ? `failed: ${failure},` : "works,"} ${ms} ms`);
    if (failure) process.exitCode = 1;
  }
}

type Command = {
  run(store: Store, subject: string, config: Config): Promise<void>;
  /** Pattern of the argument. */
  takes: RegExp;
};
const SUBJECT = /./;
const commands: Record<string, Command> = {
  promote: { run: promote, takes: SUBJECT },
  unlock: { run: unlock, takes: SUBJECT },
  "disable-mfa": { run: disableMfa, takes: SUBJECT },
  "end-sessions": { run: endSessions, takes: SUBJECT },
  "after-restore": { run: afterRestore, takes: /^(?:--keep-api-keys)?$/ },
  "rotate-keys": { run: rotateKeys, takes: /^(?:--now)?$/ },
  "grant-role": { run: grantRole, takes: SUBJECT },
};

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
  if (name === "check-providers" && subject === "") return printProviderChecks();
  const command = commands[name];
  if (!command?.takes.test(subject) || rest.length > 0) {
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
    await command.run(store, subject, config);
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
    `${error instanceof ServiceError ? error.message : `Failed: ${error.message}`}\n`,
  );
  process.exitCode = 2;
}
