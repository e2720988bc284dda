// An HTTP client with its own address and cookies.

import { randomInt } from "node:crypto";
import { assertMatchesOpenApi } from "./openapi-assertions.ts";

/** A response. `body` is parsed JSON if the content type says so, and else the text. */
// biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape
export type HttpResponse = { status: number; headers: Headers; text: string; body: any };

/**
 * A client with its own address and cookies. It rejects a response that /openapi.json does not
 * describe.
 */
export type HttpClient = ReturnType<typeof createHttpClient>;

/**
 * Sends a request. A `body` is JSON, or unchanged text or bytes; its type is JSON unless `headers`
 * have another.
 */
export async function sendHttp(
  url: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<HttpResponse> {
  const isRaw = typeof body === "string" || body instanceof Uint8Array;
  const response = await fetch(url + path, {
    method,
    redirect: "manual",
    headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
    ...(body !== undefined && { body: (isRaw ? body : JSON.stringify(body)) as string }),
  });
  const text = await response.text();
  const isJson =
    text !== "" && response.headers.get("content-type")?.startsWith("application/json");
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson ? JSON.parse(text) : text,
  };
}

/**
 * Creates a client. Its address is random unless one is given.
 * @param isDescribed whether responses must match /openapi.json; replicas of two releases have
 * different documents
 */
export function createHttpClient(url: string, address = randomAddress(), isDescribed = true) {
  const cookies = new Map<string, string>();
  async function send(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<HttpResponse> {
    const response = await sendHttp(url, method, path, body, {
      "x-forwarded-for": address,
      ...(cookies.size > 0 && {
        cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; "),
      }),
      ...headers,
    });
    for (const line of response.headers.getSetCookie()) keep(line);
    if (isDescribed) await assertMatchesOpenApi(url, method, path, response);
    return response;
  }
  function keep(line: string): void {
    const [pair = ""] = line.split(";");
    const [name = "", value = ""] = pair.split("=");
    if (value === "" || /max-age=0/i.test(line)) cookies.delete(name);
    else cookies.set(name, value);
  }
  return {
    address,
    cookies,
    keep,
    send,
    get: (path: string, token?: string) => send("GET", path, undefined, bearer(token)),
    post: (path: string, body?: unknown, token?: string) => send("POST", path, body, bearer(token)),
    put: (path: string, body?: unknown, token?: string) => send("PUT", path, body, bearer(token)),
    delete: (path: string, token?: string) => send("DELETE", path, undefined, bearer(token)),
  };
}

/** The requests of a client with an access token. `headers` are those of a gRPC call. */
export const withToken = (client: HttpClient, accessToken: string) => ({
  accessToken,
  headers: bearer(accessToken),
  get: (path: string) => client.get(path, accessToken),
  post: (path: string, body?: unknown) => client.post(path, body, accessToken),
  put: (path: string, body: unknown) => client.put(path, body, accessToken),
  delete: (path: string) => client.delete(path, accessToken),
  /** The sessions that GET /user/sessions lists. */
  sessions: async () => (await client.get("/user/sessions", accessToken)).body,
  /** The status of GET /user/profile: 200 while the session is open. */
  profileStatus: async () => (await client.get("/user/profile", accessToken)).status,
});

/**
 * Posts JSON, from a random address.
 * @returns the response once its headers have arrived
 */
export const postJson = (url: string, body: object, token?: string, signal?: AbortSignal) =>
  fetch(url, {
    method: "POST",
    headers: {
      ...bearer(token),
      "content-type": "application/json",
      "x-forwarded-for": randomAddress(),
    },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });

/** A random address. Two clients of a run are unlikely to have the same. */
export function randomAddress(): string {
  return `10.${randomInt(256)}.${randomInt(256)}.${randomInt(1, 255)}`;
}

/** The header of an access token. */
export const bearer = (token: string | undefined): Record<string, string> =>
  token ? { authorization: `Bearer ${token}` } : {};
