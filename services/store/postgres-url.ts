import { parse, toClientConfig } from "pg-connection-string";

/**
 * The connection that a URL of PostgreSQL asks for, by the meaning that libpq gives it (PostgreSQL documentation,
 * "Connection Strings"): `sslmode=require` encrypts, `verify-full` checks the server's certificate too, against
 * `sslrootcert` or, without one, Node's own authorities. The ORM reads nothing behind the `?` by itself.
 * @throws Error of a certificate that can't be read
 */
export function connectionOf(url: string) {
  const read = new URL(url);
  if (read.searchParams.get("sslrootcert") === "system") read.searchParams.delete("sslrootcert");
  read.searchParams.delete("uselibpqcompat"); // it is on
  const asked = toClientConfig(parse(read.href, { useLibpqCompat: true }));
  const { host, port, user, password, ssl, application_name, options } = asked;
  return { host, port, user, password, ssl, application_name, options };
}
