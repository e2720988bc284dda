import { decodeJwt } from "jose/jwt/decode";

/** Browsers send the cookies only to routes below this path. */
const PATH = "/auth";

/** Creates `Set-Cookie` values. */
export type Cookies = {
  /** A cookie with the lifetime of the token in it. */
  set(name: string, token: string): string;
  /** A value that deletes the cookie of this name. */
  clear(name: string): string;
};

/**
 * Creates the cookies of the service. Scripts and other sites cannot read or send them (RFC 6265).
 * @param publicUrl URL for clients; a path in it is one that the proxy removes
 * @param now the current time, in ms
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

/** Seconds until a JWT expires, rounded up; undefined if it has no expiry. */
function secondsLeft(token: string, now: number): number | undefined {
  try {
    const { exp } = decodeJwt(token);
    return exp === undefined ? undefined : Math.max(0, Math.ceil(exp - now / 1000));
  } catch {
    return undefined; // not a JWT: the cookie ends with the browser's session
  }
}
