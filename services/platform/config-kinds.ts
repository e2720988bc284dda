import { isIP } from "node:net";
import { domainToASCII } from "node:url";
import ms, { type StringValue } from "ms";
import { z } from "zod";
import { plainAddress } from "./client.ts";

/** An environment variable. `docs/configuration.md` and `.env.example` are generated from these tables. */
export type Variable<T = unknown> = {
  schema: z.ZodType<T>;
  /** The text that is read if the variable is not set. */
  fallback?: string;
  /** The default, for the documentation. */
  shown: string;
  about: string;
};

/** A variable with a default. */
export const setting = <T>(schema: z.ZodType<T>, fallback: string, about: string): Variable<T> => ({
  schema,
  fallback,
  shown: fallback === "" ? "none" : `\`${fallback}\``,
  about,
});

/** A variable that is undefined unless set. @param shown what happens then */
export const optional = <T>(schema: z.ZodType<T>, about: string, shown = "none"): Variable<T | undefined> => ({
  schema,
  shown,
  about,
});

const DURATION = /^(0|\d+(ms|s|m|h|d))$/;

/** `15m`, `7d`, `500ms`: a duration in milliseconds, by default up to a hundred years. */
export function duration(min: StringValue | "0" = "0", max: StringValue = "36500d") {
  const allowed = `must be a duration such as 500ms, 15m or 7d, from ${min} to ${max}`;
  return z
    .string()
    .regex(DURATION, allowed)
    .transform((text) => ms(text as StringValue))
    .refine((time) => time >= ms(min as StringValue) && time <= ms(max), allowed);
}

/** A lifetime of at least a second. */
export const lifetime = duration("1s");

/** Nothing, or at least a day. */
export const wholeDays = duration().refine((time) => time === 0 || time >= ms("1d"), "must be 0, or at least 1d");

/** A time limit that a timer can wait for. */
export const timeLimit = (min: StringValue | "0" = "0") => duration(min, "24d");

/** A whole number within bounds. */
export function number(min: number, max: number) {
  const allowed = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d+$/, allowed)
    .transform(Number)
    .refine((n) => n >= min && n <= max, allowed);
}

export const port = number(0, 65_535);

/** One of a few words. */
export const choice = <const T extends [string, ...string[]]>(...values: T) =>
  z.enum(values, `must be one of ${values.join(", ")}`);

export const toggle = choice("on", "off").transform((value) => value === "on");
export const trueOrFalse = choice("true", "false").transform((value) => value === "true");

/** An address or a host name to listen on. */
export const host = z.string().regex(/^[\w.:%-]+$/, "must be an address or a host name");

/** A # or, behind the host, an @: an unencoded password is parsed as host, port or path. */
const UNENCODED_PASSWORD = /:\/\/.*(?:#|[/?].*@)/;

/** Whether a text is a URL with one of these protocols whose user and password can be parsed. */
function isUrl(text: string, protocols: string[]): boolean {
  if (UNENCODED_PASSWORD.test(text) || !/^\w+:\/\/.*\S$/.test(text)) return false;
  try {
    const { protocol, username, password } = new URL(text);
    decodeURIComponent(username + password);
    return protocols.includes(protocol);
  } catch {
    return false;
  }
}

/** Part of the message about a URL that can contain a password. */
export const URL_ENCODING_HINT = "with signs such as # and / in a password spelled %23 and %2F";

/** A URL with one of these protocols. @param what the allowed form, for the error message */
export const url = (protocols: string[], what: string) =>
  z.string().refine((text) => isUrl(text, protocols), `must be ${what}`);

/** An http or https URL to which paths are appended, without a trailing slash. */
export const webUrl = z
  .string()
  .refine(
    (text) => isUrl(text, ["http:", "https:"]) && /^[^?#]+$/.test(text),
    "must be a URL with http or https, without ? and #",
  )
  .transform((text) => text.replace(/\/+$/, ""));

const INTERNAL_URL = /^(unix:(\/\/)?\/[^/?#][^?#]*|(tcp|tls):\/\/(\[[\da-f:.]+\]|[\w.-]+):\d+)$/i;
/** The address of an internal listener. */
export const internalUrl = z
  .string()
  .refine(
    (text) => INTERNAL_URL.test(text) && URL.canParse(text),
    "must be unix:/path, tcp://host:port or tls://host:port",
  );

/** A web URL that others see, in links and tokens. */
export const publicUrl = webUrl.refine((text) => !/^\w+:\/\/[^/]*@/.test(text), "must have no user and no password");

/** Where services are: gRPC at an http or https URL, or their internal listener. */
export const servicesUrl = z.union([webUrl, internalUrl], {
  error: "must be a URL with http or https, without ? and #, or unix:/path, tcp://host:port or tls://host:port",
});

/** A comma-separated list. */
export const list = (isItem: (item: string) => boolean, message: string) =>
  z
    .string()
    .regex(/^$|[^\s,]/, message)
    .transform((text): readonly string[] => {
      const items = text.split(",").map((item) => item.trim());
      return Object.freeze(items.filter((item) => item !== ""));
    })
    .refine((items) => items.every(isItem), message);

/** Whether a text is an address or a CIDR, each in full: `10/8` is none. */
function isNetwork(text: string): boolean {
  const [, address = "", bits = "0"] = /^([^/]+)(?:\/(\d+))?$/.exec(text) ?? [];
  const version = isIP(plainAddress(address));
  return version > 0 && Number(bits) <= (version === 4 ? 32 : 128);
}

export const networks = list(isNetwork, "must be addresses or CIDRs, separated by commas");

/** Whether a text is the origin of a web page, or of an app's web view. */
const isOrigin = (text: string) =>
  /^(capacitor|ionic|tauri):\/\/localhost$/.test(text) ||
  (isUrl(text, ["http:", "https:"]) && !text.includes("*") && new URL(text).origin === text);

export const origins = list(
  isOrigin,
  "must be origins such as https://app.example.com or capacitor://localhost, separated by commas",
);

/** URLs of Redis. Several are a cluster. */
export const redisUrls = list(
  (item) => isUrl(item, ["redis:", "rediss:"]),
  `must be redis://… or rediss://…, several separated by commas, ${URL_ENCODING_HINT}`,
);

const isPostgres = (text: string) => isUrl(text, ["postgres:", "postgresql:"]) && new URL(text).pathname.length > 1;
/** A database on a server, or one in memory. */
export const databaseUrl = z
  .string()
  .refine(
    (text) => text === "memory:" || isPostgres(text),
    `must be postgres://user:pass@host/database or memory:, ${URL_ENCODING_HINT}`,
  );

/** Keys of so many bytes in base64, separated by commas. */
export const base64Keys = (bytes: number) =>
  list(
    (key) => /^[A-Za-z0-9+/_-]+={0,2}$/.test(key) && Buffer.from(key, "base64").length === bytes,
    `must be ${bytes} bytes in base64, or several such keys with commas between them`,
  );

/** `Acme <no-reply@example.com>`, or only the address. A quoted name is unquoted (RFC 5322 section 3.2.4). */
export const mailbox = z.string().transform((text, context) => {
  const [, display = "", address = text] = /^\s*([^<>\r\n]*?)\s*<([^<>]*)>$/.exec(text) ?? [];
  const [, local, domain = ""] = /^([\w!#$%&'*+/=?^`{|}~.-]+)@([^\s@%/?#:]+)$/.exec(address) ?? [];
  const host = domainToASCII(domain);
  const name = display.replace(/^"(.*)"$/, (_, quoted: string) => quoted.replace(/\\(.)/g, "$1"));
  if (host) return { name, address: `${local}@${host}` };
  context.addIssue("must be an address such as Acme <no-reply@example.com>, of ASCII before the @");
  return z.NEVER;
});
