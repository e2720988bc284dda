import type { IncomingHttpHeaders } from "node:http";
import type { HttpFormat } from "./format.ts";

/** The credential of a request: `Authorization`, or else the key in the header of its format. */
export function authorizationOf(
  headers: IncomingHttpHeaders,
  format: Pick<HttpFormat, "keyHeader"> | undefined,
): string | undefined {
  const { authorization } = headers;
  if (authorization !== undefined || !format?.keyHeader) return authorization;
  const key = headers[format.keyHeader];
  return typeof key === "string" ? `Bearer ${key}` : undefined;
}
