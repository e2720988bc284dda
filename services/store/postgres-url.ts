import { parse, toClientConfig } from "pg-connection-string";

/** What libpq's `sslmode` may say. A server without TLS is no choice of ours: `allow` and `prefer` mean `require`. */
const MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
/** The parameters that are heeded. */
const READ =
  "host port user password application_name options ssl sslmode sslrootcert sslcert sslkey uselibpqcompat".split(" ");

/**
 * The connection that a URL of PostgreSQL asks for, by the meaning that libpq gives it (PostgreSQL documentation,
 * "Connection Strings"): `sslmode=require` encrypts, `verify-full` checks the server's certificate too, against
 * `sslrootcert` or, without one, Node's own authorities. The ORM reads nothing behind the `?` by itself.
 * @throws Error of a certificate that can't be read, or a mode that there isn't
 */
export function parseConnectionUrl(url: string) {
  const read = new URL(url);
  const mode = read.searchParams.get("sslmode");
  if (mode !== null && !MODES.includes(mode)) throw new Error(`sslmode must be one of ${MODES.join(", ")}`);
  if (mode === "allow") read.searchParams.set("sslmode", "prefer");
  if (read.searchParams.get("sslrootcert") === "system") read.searchParams.delete("sslrootcert");
  read.searchParams.delete("uselibpqcompat"); // it is on
  const asked = toClientConfig(parse(read.href, { useLibpqCompat: true }));
  const { host, port, user, password, ssl, application_name, options } = asked;
  return { host, port, user, password, ssl, application_name, options };
}

/** Names the parameters of a URL that change nothing, such as `search_path`, which goes into `options`. */
export function ignoredParameters(url: string): string[] {
  return [...new URL(url).searchParams.keys()].filter((name) => !READ.includes(name));
}
