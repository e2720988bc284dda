import { parse, toClientConfig } from "pg-connection-string";

/** Values of libpq's `sslmode`. `allow` and `prefer` mean `require`: there is no fallback to a connection without TLS. */
const MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
/** Parameters that are supported. */
const SUPPORTED =
  "host port user password application_name options ssl sslmode sslrootcert sslcert sslkey uselibpqcompat".split(" ");

/**
 * Parses a PostgreSQL URL as libpq does (PostgreSQL documentation, "Connection Strings"): `sslmode=require` encrypts,
 * `verify-full` also checks the server's certificate against `sslrootcert` or, without it, Node's authorities. The ORM
 * itself ignores the URL's parameters.
 * @throws Error if a certificate can't be read, or the mode is unknown
 */
export function parseConnectionUrl(url: string) {
  const read = new URL(url);
  const mode = read.searchParams.get("sslmode");
  if (mode !== null && !MODES.includes(mode)) throw new Error(`sslmode must be one of ${MODES.join(", ")}`);
  if (mode === "allow") read.searchParams.set("sslmode", "prefer");
  if (read.searchParams.get("sslrootcert") === "system") read.searchParams.delete("sslrootcert");
  read.searchParams.delete("uselibpqcompat"); // always on
  const config = toClientConfig(parse(read.href, { useLibpqCompat: true }));
  const { host, port, user, password, ssl, application_name, options } = config;
  return { host, port, user, password, ssl, application_name, options };
}

/** Parameters of a URL that are ignored, such as `search_path`, which belongs into `options`. */
export function ignoredParameters(url: string): string[] {
  return [...new URL(url).searchParams.keys()].filter((name) => !SUPPORTED.includes(name));
}
