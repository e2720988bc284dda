import type { PasskeyCredential } from "../../gen/gatehouse/account/v1/passkey_pb.ts";
import { invalid } from "../platform/rpc/errors.ts";

/** The credential in a request, which the field rules require. */
export function given(credential: PasskeyCredential | undefined): PasskeyCredential {
  if (!credential) throw invalid("credential", "is required");
  return credential;
}
