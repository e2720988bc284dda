import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { SystemCall } from "../call.ts";
import type { Cipher } from "../crypto/cipher.ts";
import type { Config } from "../platform/config/config.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { equalSecrets } from "../platform/rpc/metadata.ts";
import { promoteFirstAdmin } from "../store/admin-users.ts";
import type { Db } from "../store/statement.ts";
import { User } from "../store/users.ts";

const CONTEXT = "setup-token";
const TOKEN_BYTES = 24;

type Secrets = { cipher: Cipher };

/**
 * The token of the link that is printed at the start while there is no administrator. It is derived
 * from the secret key, so that nothing is stored and a restart prints the same link. It is invalid
 * once there is an administrator.
 */
export const setupTokenOf = ({ cipher }: Secrets): string => encode(cipher.mac(CONTEXT, CONTEXT));

const encode = (mac: Buffer) => mac.subarray(0, TOKEN_BYTES).toString("base64url");

/** Whether the start should print that link. Never in production, where logs are kept. */
export const needsFirstAdministrator = async ({
  em,
  config,
}: Db & { config: Pick<Config, "nodeEnv"> }): Promise<boolean> =>
  config.nodeEnv !== "production" && (await em.count(User, { role: "admin" })) === 0;

/**
 * Checks the token of a registration.
 * @throws ServiceError TOKEN_INVALID
 */
export async function assertSetupToken(
  call: Db & Secrets & { config: Pick<Config, "nodeEnv"> },
  token = "",
): Promise<void> {
  const isOurs = call.cipher.macs(CONTEXT, CONTEXT).some((mac) => equalSecrets(token, encode(mac)));
  if (isOurs && (await needsFirstAdministrator(call))) return;
  throw new ServiceError(
    Reason.TOKEN_INVALID,
    "This link is invalid or was already used: there is an administrator. Please register without it.",
  );
}

/**
 * Makes a new user the first administrator, with a verified address, since only the operator can
 * read the output of the process. Only one of several callers succeeds; the others remain users.
 */
export async function makeFirstAdministrator(call: SystemCall, userId: string): Promise<void> {
  await call.em.transactional(async () => {
    if (!(await promoteFirstAdmin(call, userId, call.clock.now()))) return;
    await recordAudit(call, "admin.user_updated", { userId, details: { role: "admin" } });
  });
}
