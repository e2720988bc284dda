import { decodeJwt } from "jose/jwt/decode";

/** Cookies are sent to the routes below this path of the public address alone. */
const PATH = "/auth";

/** Makes `Set-Cookie` values. */
export type Cookies = {
  /** A cookie that lives as long as the token it carries. */
  set(name: string, token: string): string;
  /** A cookie that ends the one of this name. */
  clear(name: string): string;
};

/**
 * Makes the cookies of the service: out of reach of scripts and of other sites (RFC 6265).
 * @param publicUrl where clients reach the service; a path in it is one that a proxy takes off
 * @param now the present time, in milliseconds
 */
export function createCookies(publicUrl: string, now: () => number): Cookies {
  const { protocol, pathname } = new URL(`${publicUrl}${PATH}`);
  const attributes = `Path=${pathname}; HttpOnly; SameSite=Strict${protocol === "https:" ? "; Secure" : ""}`;
  return {
    set(name, token) {
      const seconds = secondsLeft(token, now());
      const maxAge = seconds === undefined ? "" : `Max-Age=${seconds}; `;
      return `${name}=${encodeURIComponent(token)}; ${maxAge}${attributes}`;
    },
    clear: (name) => `${name}=; Max-Age=0; ${attributes}`,
  };
}

/** The value of the first cookie of this name, or undefined. */
export function readCookie(header: string | undefined, name: string): string | undefined {
  for (const pair of header?.split(";") ?? []) {
    const at = pair.indexOf("=");
    if (at > 0 && pair.slice(0, at).trim() === name) return unescaped(pair.slice(at + 1).trim());
  }
  return undefined;
}

function unescaped(value: string): string {
  try {
    const text = decodeURIComponent(value);
    return text.includes("\0") ? "" : text;
  } catch {
    return "";
  }
}

/** Seconds until a JWT expires, one that has begun counted whole; undefined where the token does not say. */
function secondsLeft(token: string, now: number): number | undefined {
  try {
    const { exp } = decodeJwt(token);
    return exp === undefined ? undefined : Math.max(0, Math.ceil(exp - now / 1000));
  } catch {
    return undefined; // not a JWT: the cookie ends with the browser's session
  }
}
