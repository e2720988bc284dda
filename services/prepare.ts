import type { Logger } from "pino";
import { needsFirstAdministrator, setupTokenOf } from "./accounts/first-administrator.ts";
import { bootstrapFirstAdmin } from "./admin/bootstrap.ts";
import { type Call, type SystemCall, systemCall } from "./call.ts";
import { createCipher } from "./crypto/cipher.ts";
import { createPasswords } from "./crypto/passwords.ts";
import { checkRelyingParty } from "./passkeys/relying-party.ts";
import type { Config } from "./platform/config/config.ts";
import type { Clock } from "./platform/process/clock.ts";
import { openKeyRing } from "./sessions/key-ring.ts";
import { openStore } from "./store/open-store.ts";
import { checkSchema } from "./store/schema.ts";
import { readSecretKeys } from "./store/secret-keys.ts";
import type { Store } from "./store/store.ts";

/**
 * Does what a start does once, before any worker serves: logs warnings, migrates and checks the
 * database, and creates the first administrator.
 * @returns the token of the link that makes the first administrator, while there is none
 * @throws Error for operators if the process cannot start
 */
export async function prepare(
  config: Config,
  { log, clock }: { log: Logger; clock: Clock },
): Promise<string | undefined> {
  for (const warning of config.warnings) log.warn(warning);
  const store = await openStore(config.database, log);
  try {
    await prepareStore(config, store, log);
    const cipher = createCipher(...readSecretKeys(config));
    await openKeyRing(store, cipher, clock, 0); // checks SECRET_KEY
    const mailWorker = { wake: () => {}, close: async () => {} }; // the workers send queued e-mails
    const context = {
      config,
      clock,
      log,
      mailWorker,
      cipher,
      passwords: await createPasswords(),
    };
    return await prepareAdministrator(systemCall(context, store, "start"));
  } finally {
    await store.close();
  }
}

/**
 * Migrates and checks the database.
 * @throws Error for operators if the process cannot start
 */
export async function prepareStore(config: Config, store: Store, log: Logger): Promise<void> {
  if (config.migrate) await store.migrate();
  await checkSchema(store.fork(), log);
  await checkRelyingParty(config, store, log);
}

/**
 * Creates the configured administrator if there is none.
 * @returns the token of the link that makes the first administrator, while there is none
 */
export async function prepareAdministrator(
  call: SystemCall & Pick<Call, "passwords" | "log" | "cipher">,
): Promise<string | undefined> {
  const { admin } = call.config;
  if (admin) await bootstrapFirstAdmin(call, admin);
  return (await needsFirstAdministrator(call)) ? setupTokenOf(call) : undefined;
}
