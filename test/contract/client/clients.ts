import { type ClientOptions, createClient } from "../../../client/src/index.ts";
import type { TestApp } from "../../support/app.ts";
import { createHttpClient, randomAddress } from "../../support/http/client.ts";

/** A request that a client has sent. */
export type Sent = {
  method: string;
  path: string;
  headers: Record<string, string>;
  credentials: string | undefined;
};

/** A client with its own address. It records its requests. */
export function clientAt(url: string, options: ClientOptions = {}) {
  const sent: Sent[] = [];
  const address = randomAddress();
  const onward = options.fetch ?? fetch;
  const client = createClient({
    baseUrl: url,
    ...options,
    fetch: (target, init) => {
      const headers = { ...(init?.headers as Record<string, string>) };
      const { method = "GET", credentials } = init ?? {};
      sent.push({ method, path: String(target).replace(url, ""), headers, credentials });
      return onward(target, { ...init, headers: { "x-forwarded-for": address, ...headers } });
    },
  });
  const refreshes = () => sent.filter(({ path }) => path === "/auth/refresh").length;
  return Object.assign(client, { sent, refreshes });
}

/** A client with a session of a new user. */
export async function signedInClient(app: TestApp, options: ClientOptions = {}) {
  const user = await app.addUser();
  const client = clientAt(app.url, options);
  await client.auth.login(user.credentials);
  return { user, client };
}

/** A browser whose tabs share cookies and Web Locks. Scripts cannot read the cookies. */
export function browserAt(url: string) {
  const browser = createHttpClient(url);
  /** @param departure delays the request after its cookies are chosen */
  async function withCookies(
    target: Parameters<typeof fetch>[0],
    { headers, ...init }: RequestInit = {},
    departure?: Promise<unknown>,
  ) {
    const { cookie: _, ...others } = headers as Record<string, string>; // a page may not set it
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    await departure;
    const response = await fetch(target, {
      ...init,
      headers: { ...others, ...(cookie && { cookie }) },
    });
    for (const line of response.headers.getSetCookie()) browser.keep(line);
    return response;
  }
  const tab = (options: ClientOptions = {}) =>
    clientAt(url, { refreshToken: "cookie", fetch: withCookies, ...options });
  return { tab, fetch: withCookies };
}
