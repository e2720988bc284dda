import Bowser from "bowser";

/**
 * Description of the device from its User-Agent, such as "Chrome on Windows". At most 200
 * characters.
 */
export function deviceOf(agent: string): string {
  const [word] = /[^/\s]+/.exec(agent) ?? [];
  if (!word) return "Unknown device";
  const { browser, os } = Bowser.parse(agent);
  return [browser.name || word, os.name].filter(Boolean).join(" on ").slice(0, 200);
}
