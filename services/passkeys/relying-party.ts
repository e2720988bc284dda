import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Config } from "../platform/config/config.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { hasForeignPasskeys } from "../store/passkeys.ts";
import type { Store } from "../store/store.ts";

/** The relying party of passkeys: its RP id, and the origins that may use them. */
export type RelyingParty = NonNullable<Config["relyingParty"]>;

/**
 * The relying party of this deployment.
 * @throws ServiceError NOT_FOUND if passkeys are off
 */
export function relyingPartyOf({ relyingParty }: Pick<Config, "relyingParty">): RelyingParty {
  if (relyingParty) return relyingParty;
  throw new ServiceError(Reason.NOT_FOUND, "This service does not offer passkeys.");
}

/** Logs when passkeys are off, and when stored passkeys can no longer be used. */
export async function checkRelyingParty(
  { relyingParty }: Pick<Config, "relyingParty">,
  store: Pick<Store, "fork">,
  log: Logger,
): Promise<void> {
  if (!relyingParty) log.info("passkeys are off: the host of APP_URL is an IP address");
  else if (await hasForeignPasskeys({ em: store.fork() }, relyingParty.id))
    log.warn({ rpId: relyingParty.id }, "some stored passkeys belong to another PASSKEY_RP_ID");
}
