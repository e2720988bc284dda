import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Identity } from "../store/identities.ts";

/** Maps an identity to its message. */
export const identityMessage = ({ id, provider, email, createdAt, lastUsedAt }: Identity) => ({
  id,
  provider,
  ...(email !== null && { email }),
  createdAt: timestampFromDate(createdAt),
  ...(lastUsedAt && { lastUsedAt: timestampFromDate(lastUsedAt) }),
});
