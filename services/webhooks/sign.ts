import { createHmac, randomBytes } from "node:crypto";

/** Of a secret, as Standard Webhooks recommends (24 to 64 bytes). */
const SECRET_BYTES = 32;
const PREFIX = "whsec_";

/** A new secret of a webhook, as receivers enter it: `whsec_` and base64. */
export const newWebhookSecret = (): string => PREFIX + randomBytes(SECRET_BYTES).toString("base64");

/**
 * The headers that sign a delivery (Standard Webhooks 1.0, "Signature scheme").
 * @param secrets the delivery is signed with each of them; a receiver needs one
 * @param id of the event: the same in every attempt
 * @param now time of the attempt; receivers reject times that differ by minutes
 */
export function signDelivery(
  secrets: readonly string[],
  { id, now, body }: { id: string; now: Date; body: string },
): Record<string, string> {
  const timestamp = Math.floor(now.getTime() / 1_000);
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(PREFIX.length), "base64");
    const mac = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`);
    return `v1,${mac.digest("base64")}`;
  });
  return {
    "webhook-id": id,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": signatures.join(" "),
  };
}
