import { domainToASCII } from "node:url";
import ms, { type StringValue } from "ms";
import { z } from "zod";

type Bounds = { least?: StringValue | "0"; most?: StringValue };

/** `15m`, `7d`, `500ms`: milliseconds, by default up to a hundred years. */
export const duration = (fallback: StringValue, { least = "0", most = "36500d" }: Bounds = {}) => {
  const allowed = `must be a duration such as 500ms, 15m or 7d, from ${least} to ${most}`;
  return z
    .string()
    .regex(/^(0|\d+(ms|s|m|h|d))$/, allowed)
    .default(fallback)
    .transform((text) => ms(text as StringValue))
    .refine((time) => time >= ms(least as StringValue) && time <= ms(most), allowed);
};

/** How long something is good for: a while at least, else it is dead when it is given out. */
export const lifetime = (fallback: StringValue) => duration(fallback, { least: "1s" });

/** How long something is waited for: no longer than a timer can run. */
export const timeLimit = (fallback: StringValue, least: StringValue | "0" = "0") =>
  duration(fallback, { least, most: "24d" });

/** A whole number within bounds. */
export const number = (fallback: number, least: number, most: number) =>
  z
    .string()
    .regex(/^\d+$/, `must be a whole number from ${least} to ${most}`)
    .default(String(fallback))
    .transform(Number)
    .refine((n) => n >= least && n <= most, `must be a whole number from ${least} to ${most}`);

/** One of a few words. */
export const choice = <const T extends [string, ...string[]]>(values: T, fallback: T[number]) =>
  z.enum(values, `must be one of ${values.join(", ")}`).default(fallback as T[number]);

/** A # or, behind the host, an @: a password was not spelled as URLs want it and is read for a host, a port or a path. */
const MISREAD = /:\/\/.*(?:#|[/?].*@)/;

/** Whether a text is a URL with one of these protocols, whose user and password can be read. */
export function isUrl(text: string, protocols: string[]): boolean {
  if (MISREAD.test(text) || text !== text.trim()) return false;
  try {
    const { protocol, username, password } = new URL(text);
    decodeURIComponent(username + password);
    return protocols.includes(protocol);
  } catch {
    return false;
  }
}

/** To be said of URLs with a password. */
export const SPELLING = "with signs such as # and / in a password spelled %23 and %2F";

/** A URL with one of these protocols. @param what a wrong one is told to be */
export const url = (protocols: string[], what: string, allowed = /./) =>
  z.string().refine((text) => isUrl(text, protocols) && allowed.test(text), `must be ${what}`);

/** A URL of http or https that paths can be put after, without a trailing slash. */
export const webUrl = url(["http:", "https:"], "a URL with http or https, without ? and #", /^[^?#]+$/).transform(
  (text) => text.replace(/\/+$/, ""),
);

/** `Acme <no-reply@example.com>`, or the address alone; a name in quotes is read as one (RFC 5322 section 3.2.4). */
export const mailbox = (fallback: string) =>
  z
    .string()
    .default(fallback)
    .transform((text, context) => {
      const [, spelled = "", address = text] = /^\s*([^<>\r\n]*?)\s*<([^<>]*)>$/.exec(text) ?? [];
      const [, local, domain = ""] = /^([\w!#$%&'*+/=?^`{|}~.-]+)@([^\s@%/?#:]+)$/.exec(address) ?? [];
      const host = domainToASCII(domain);
      const name = spelled.replace(/^"(.*)"$/, (_, quoted: string) => quoted.replace(/\\(.)/g, "$1"));
      if (host) return { name, address: `${local}@${host}` };
      context.addIssue("must be an address such as Acme <no-reply@example.com>, of ASCII before the @");
      return z.NEVER;
    });
