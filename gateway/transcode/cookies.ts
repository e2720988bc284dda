import cookie from "@fastify/cookie";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { decodeJwt } from "jose/jwt/decode";

/** Browsers send the cookies only to routes below this path. */
const PATH = "/auth";

/** Sets the cookies of responses. */
export type Cookies = {
  /** Sets a cookie with the lifetime of the token in it. */
  set(reply: FastifyReply, name: string, token: string): void;
  /** Deletes the cookie of this name. */
  clear(reply: FastifyReply, name: string): void;
};

/**
 * Adds the cookies of the service. Scripts and other sites cannot read or send them (RFC 6265).
 * @param publicUrl URL for clients; a path in it is one that the proxy removes
 * @param now the current time, in ms
 */
export function addCookies(app: FastifyInstance, publicUrl: string, now: () => number): Cookies {
  const parseOptions: object = { decode: decodeValue }; // is missing in the type
  app.register(cookie, { hook: false, parseOptions });
  const { protocol, pathname } = new URL(`${publicUrl}${PATH}`);
  const options = { path: pathname, httpOnly: true, sameSite: "strict", secure: protocol === "https:" } as const;
  return {
    set: (reply, name, token) => reply.setCookie(name, token, { ...options, ...lifetime(token, now()) }),
    clear: (reply, name) => reply.setCookie(name, "", { ...options, maxAge: 0 }),
  };
}

/** The value of a cookie. Empty without one, or with two: another site below the same domain may have set the second. */
export function readCookie({ headers, server }: FastifyRequest, name: string): string {
  const pairs = headers.cookie?.split(";").filter((pair) => pair.trim().startsWith(`${name}=`)) ?? [];
  return pairs.length === 1 ? (server.parseCookie(String(pairs[0]))[name] ?? "") : "";
}

function decodeValue(value: string): string {
  try {
    const text = decodeURIComponent(value);
    return text.includes("\0") ? "" : text;
  } catch {
    return "";
  }
}

/** The seconds until a JWT expires, rounded up. A cookie without `maxAge` ends with the browser's session. */
function lifetime(token: string, now: number): { maxAge?: number } {
  try {
    const { exp } = decodeJwt(token);
    return exp === undefined ? {} : { maxAge: Math.max(0, Math.ceil(exp - now / 1000)) };
  } catch {
    return {};
  }
}
