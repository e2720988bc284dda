import Bowser from "bowser";
import type { SystemCall } from "../call.ts";
import { responsibleId } from "../principal.ts";

const NAMES = new Set([...Object.values(Bowser.BROWSER_MAP), ...Object.values(Bowser.OS_MAP)]);

/**
 * The device of a User-Agent, such as "Chrome on Linux"; empty unless it is a known one. Whoever
 * sends a request chooses its User-Agent, and must not be able to write into an e-mail to somebody
 * else.
 */
function knownDeviceOf(agent: string): string {
  if (agent === "") return "";
  const { browser, os } = Bowser.parse(agent);
  return [browser.name, os.name].filter((name) => name && NAMES.has(name)).join(" on ");
}

/**
 * When, where and on which device the cause of an e-mail happened, as values for its template. If
 * somebody else has acted, it says who in general, since their device and address do not concern
 * the recipient.
 * @param userId the recipient
 */
export function circumstancesOf(call: SystemCall, userId: string): Record<string, string> {
  const at = call.clock.now().toISOString();
  const { principal, client } = call;
  if (principal?.kind === "system") return { at, by: "operator" };
  if ((responsibleId(principal) ?? userId) !== userId) return { at, by: "administrator" };
  const place = [call.locate?.(client.address), client.address].filter(Boolean).join(" · ");
  return { at, place, client: knownDeviceOf(client.agent) || "unknown" };
}
