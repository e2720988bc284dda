import type { WebhookOutbound } from "../platform/outbound.ts";

/**
 * Why a URL is not allowed for a webhook.
 * @returns undefined if it can
 */
export function urlProblem(
  text: string,
  outbound: Pick<WebhookOutbound, "allows">,
): string | undefined {
  if (!URL.canParse(text)) return "must be a URL such as https://example.com/hook";
  const url = new URL(text);
  if (url.username !== "" || url.password !== "") return "must not contain a user or a password";
  if (text.includes("#")) return "must not contain a #";
  if (outbound.allows(url)) return undefined;
  if (url.protocol !== "https:") return "must begin with https://";
  return "must not be an address of this machine or its network";
}
