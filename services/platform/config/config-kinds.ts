import { isIP } from "node:net";
import { availableParallelism } from "node:os";
import { domainToASCII } from "node:url";
import ms, { type StringValue } from "ms";
import { z } from "zod";
import { plainAddress } from "../gate/address.ts";
import { readAccent } from "./accent.ts";

export const text = z.string();

/** Name of a setting's variable: `refreshGraceMs` is set by REFRESH_GRACE. */
export const variableOf = (name: string) =>
  name.replace(/Ms$/, "").replace(/[A-Z]/g, "_$&").toUpperCase();

/** Names of a setting's variables, in order of precedence. The first one that is set counts. */
export function variablesOf(name: string, schema: z.ZodType): string[] {
  const { names } = schema.meta() ?? {};
  return Array.isArray(names) ? names : [variableOf(name)];
}

/** A setting with a default, written like the value of its variable. */
export const setting = <T extends z.ZodType>(schema: T, fallback: z.input<T>) =>
  schema.prefault(fallback);

/**
 * A setting that is undefined unless its variable is set.
 * @param shown what the documentation shows as its default
 */
export const optional = <T extends z.ZodType>(schema: T, shown = "none") =>
  schema.optional().meta({ shown });

/**
 * A duration such as `15m`, `7d` or `500ms`, in milliseconds; by default at most a hundred years.
 */
export function duration(min: StringValue | "0" = "0", max: StringValue = "36500d") {
  const allowed = `must be a duration such as 500ms, 15m or 7d, from ${min} to ${max}`;
  return text
    .regex(/^(0|\d+(ms|s|m|h|d))$/, allowed)
    .transform((value) => ms(value as StringValue))
    .refine((time) => time >= ms(min as StringValue) && time <= ms(max), allowed);
}

/** A lifetime of at least one second. */
export const lifetime = duration("1s");

/** Zero, or at least one day. */
export const wholeDays = duration().refine(
  (time) => time === 0 || time >= ms("1d"),
  "must be 0, or at least 1d",
);

/** A time limit short enough for a timer (at most 24 days). */
export const timeLimit = (min: StringValue | "0" = "0") => duration(min, "24d");

/** A whole number within the given bounds. */
export function number(min: number, max: number) {
  const allowed = `must be a whole number from ${min} to ${max}`;
  return text
    .regex(/^\d+$/, allowed)
    .transform(Number)
    .refine((n) => n >= min && n <= max, allowed);
}

/** Maximum number of worker processes. */
const MAX_WORKERS = 256;

/** A number of worker processes. `auto` is one per core. */
export const workers = text
  .regex(/^(auto|\d+)$/, `must be auto, or a whole number from 1 to ${MAX_WORKERS}`)
  .transform((value) => (value === "auto" ? availableParallelism() : Number(value)))
  .refine(
    (n) => n >= 1 && n <= MAX_WORKERS,
    `must be auto, or a whole number from 1 to ${MAX_WORKERS}`,
  );

/**
 * A value such as Kubernetes sets for `NAME_PORT` in the pods of a namespace with a service of that
 * name.
 */
const SERVICE_LINK = /^(?:tcp|udp|sctp):\/\//i;

/** A name for people. */
export const displayName = text.regex(
  /^\P{Cc}{1,64}$/u,
  "must be 1 to 64 characters without control characters",
);

/** A port number, or 0 for any free port. */
export const port = text
  .refine(
    (value) => !SERVICE_LINK.test(value),
    "is not a number: Kubernetes sets it for a service of that name. Set enableServiceLinks: false in the pod spec, or rename the service",
  )
  .pipe(number(0, 65_535));

/** A time zone of the IANA database. */
export const timeZone = text.refine((name) => {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
}, "must be a time zone such as UTC or Europe/Berlin");

/** One of the given words. */
export const choice = <const T extends [string, ...string[]]>(...values: T) =>
  z.enum(values, `must be one of ${values.join(", ")}`);

export const toggle = choice("on", "off").transform((value) => value === "on");
export const trueOrFalse = choice("true", "false").transform((value) => value === "true");

/** An IP address or host name to listen on. */
export const host = text.regex(/^[\w.:%-]+$/, "must be an address or a host name");

/**
 * A # anywhere, or an @ after a slash or question mark: an unencoded password would be parsed as
 * host, port or path.
 */
const UNENCODED_PASSWORD = /:\/\/.*(?:#|[/?].*@)/;

/**
 * Whether a text is a URL with one of these protocols and a user and password that can be decoded.
 */
function isUrl(value: string, protocols: string[]): boolean {
  if (UNENCODED_PASSWORD.test(value) || !/^\w+:\/\/.*\S$/.test(value)) return false;
  try {
    const { protocol, username, password } = new URL(value);
    decodeURIComponent(username + password);
    return protocols.includes(protocol);
  } catch {
    return false;
  }
}

/** Part of the error message for URLs that can contain a password. */
export const URL_ENCODING_HINT =
  "with characters such as # and / in a password encoded as %23 and %2F";

/**
 * A URL with one of the given protocols.
 * @param what the allowed form, for the error message
 */
export const url = (protocols: string[], what: string) =>
  text.refine((value) => isUrl(value, protocols), `must be ${what}`);

/** A proxy for outbound requests. Without a protocol, http is assumed, as in curl. */
export const proxyUrl = text
  .transform((value) => (value.includes("://") ? value : `http://${value}`))
  .pipe(url(["http:", "https:"], `http://user:pass@host:port, ${URL_ENCODING_HINT}`));

/** An http or https URL that paths are appended to, without a trailing slash. */
export const webUrl = text
  .refine(
    (value) => isUrl(value, ["http:", "https:"]) && /^[^?#]+$/.test(value),
    "must be a URL with http or https, without ? and #",
  )
  .transform((value) => value.replace(/\/+$/, ""));

const INTERNAL_URL = /^(unix:(\/\/)?\/[^/?#][^?#]*|(tcp|tls):\/\/(\[[\da-f:.]+\]|[\w.-]+):\d+)$/i;
/** The URL of an internal listener. */
export const internalUrl = text.refine(
  (value) => INTERNAL_URL.test(value) && URL.canParse(value),
  "must be unix:/path, tcp://host:port or tls://host:port",
);

/** A web URL that other parties see, in links and tokens. */
export const publicUrl = webUrl.refine(
  (value) => !/^\w+:\/\/[^/]*@/.test(value),
  "must not contain a user or password",
);

/** The URL of a page, or a `mailto:` link. */
export const linkUrl = text.refine(
  (value) => isUrl(value, ["http:", "https:"]) || /^mailto:[^\s@?]+@[^\s@?]+$/.test(value),
  "must be a URL with http or https, or mailto: and an address",
);

/** A brand colour. The result is its shades. */
export const accent = text.transform((value, context) => {
  const shades = readAccent(value.trim());
  if (shades) return shades;
  context.addIssue("must be a colour such as #4f55d2, with a contrast of at least 2 to white");
  return z.NEVER;
});

/** URL of the services: http or https for gRPC, or their internal listener. */
export const servicesUrl = z.union([webUrl, internalUrl], {
  error:
    "must be a URL with http or https, without ? and #, or unix:/path, tcp://host:port or tls://host:port",
});

/** A comma-separated list. */
export const list = (isItem: (item: string) => boolean, message: string) =>
  text
    .regex(/^$|[^\s,]/, message)
    .transform((value): readonly string[] => {
      const items = value.split(",").map((item) => item.trim());
      return Object.freeze(items.filter((item) => item !== ""));
    })
    .refine((items) => items.every(isItem), message);

/** Names of members of a JSON object. */
export const names = list(
  (item) => /^[\w.-]{1,64}$/.test(item),
  "must be names of 1 to 64 letters, digits, dots, hyphens and underscores, separated by commas",
);

/** Whether a text is an IP address or a CIDR with a complete address: `10/8` is rejected. */
function isNetwork(value: string): boolean {
  const [, address = "", bits = "0"] = /^([^/]+)(?:\/(\d+))?$/.exec(value) ?? [];
  const version = isIP(plainAddress(address));
  return version > 0 && Number(bits) <= (version === 4 ? 32 : 128);
}

export const networks = list(isNetwork, "must be addresses or CIDRs, separated by commas");

/** Whether a text is the origin of a web page or of an app's web view. */
const isOrigin = (value: string) =>
  /^(capacitor|ionic|tauri):\/\/localhost$/.test(value) ||
  (isUrl(value, ["http:", "https:"]) && !value.includes("*") && new URL(value).origin === value);

export const origins = list(
  isOrigin,
  "must be origins such as https://app.example.com or capacitor://localhost, separated by commas",
);

/** Domains, in lower case and punycode. */
export const domains = list(
  (item) => /^(?!\.)[^\s@/]+\.[^\s@/]+$/.test(item) && domainToASCII(item) !== "",
  "must be domains such as example.com, separated by commas",
).transform((items) => items.map((item) => domainToASCII(item).toLowerCase()));

/** A domain that passkeys may belong to. Browsers reject IP addresses. */
export const rpId = text.refine(
  (value) => /^(?!-)[a-z0-9-]+(?:\.[a-z0-9-]+)*$/.test(value) && isIP(value) === 0,
  "must be a domain in lower case, such as example.com",
);

/** Origins of pages and apps that may use passkeys. */
export const passkeyOrigins = list(
  (item) =>
    /^android:apk-key-hash:[\w-]{43}$/.test(item) ||
    (item.startsWith("https://") && isOrigin(item)),
  "must be origins such as https://example.com or android:apk-key-hash:…, separated by commas",
);

/**
 * Whether a text is the URL of a page or app that may receive the response of a provider. Schemes
 * of apps contain a dot (RFC 8252 section 7.1).
 */
const isReturnUrl = (item: string) =>
  /^[^\s?#@\\]+$/.test(item) &&
  URL.canParse(item) &&
  (item.startsWith("https://") || /^[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+:\//.test(item));

export const returnUrls = list(
  isReturnUrl,
  "must be URLs such as https://example.com/external or com.example.app:/external, without user, ? and #, separated by commas",
);

/** Redis URLs. Several URLs mean a cluster. */
export const redisUrls = list(
  (item) => isUrl(item, ["redis:", "rediss:"]),
  `must be redis://… or rediss://…, several separated by commas, ${URL_ENCODING_HINT}`,
);

const isPostgres = (value: string) =>
  isUrl(value, ["postgres:", "postgresql:"]) && new URL(value).pathname.length > 1;
/** A PostgreSQL database, or an embedded one in memory. */
export const databaseUrl = text.refine(
  (value) => value === "memory:" || isPostgres(value),
  `must be postgres://user:pass@host/database or memory:, ${URL_ENCODING_HINT}`,
);

/** Keys of the given number of bytes in base64, separated by commas. */
export const base64Keys = (bytes: number) =>
  list(
    (key) => /^[A-Za-z0-9+/_-]+={0,2}$/.test(key) && Buffer.from(key, "base64").length === bytes,
    `must be ${bytes} bytes in base64, or several such keys separated by commas`,
  );

/**
 * `Acme <no-reply@example.com>`, or the address alone. A quoted name is unquoted (RFC 5322 section
 * 3.2.4).
 */
export const mailbox = text.transform((value, context) => {
  const [, display = "", address = value] = /^\s*([^<>\r\n]*?)\s*<([^<>]*)>$/.exec(value) ?? [];
  const [, local, domain = ""] = /^([\w!#$%&'*+/=?^`{|}~.-]+)@([^\s@%/?#:]+)$/.exec(address) ?? [];
  const host = domainToASCII(domain);
  const name = display.replace(/^"(.*)"$/, (_, quoted: string) => quoted.replace(/\\(.)/g, "$1"));
  if (host) return { name, address: `${local}@${host}` };
  context.addIssue(
    "must be an address such as Acme <no-reply@example.com>, with only ASCII before the @",
  );
  return z.NEVER;
});
