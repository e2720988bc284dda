import { randomInt } from "node:crypto";
import { assertMatchesOpenApi } from "./openapi-assertions.ts";

/** An answer of the REST door. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
export type Answer = { status: number; headers: Headers; body: any };

/** Somebody at the REST door, with an address and cookies of their own, who takes no answer that is not described. */
export type HttpClient = ReturnType<typeof createHttpClient>;

/** Comes from a random address unless one is given. */
export function createHttpClient(url: string, address = randomAddress()) {
  const cookies = new Map<string, string>();
  async function send(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await fetch(url + path, {
      method,
      redirect: "manual",
      headers: {
        "x-forwarded-for": address,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(cookies.size > 0 && { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    for (const line of response.headers.getSetCookie()) keep(line);
    const text = await response.text();
    const answer = {
      status: response.status,
      headers: response.headers,
      body: isJson(response) ? JSON.parse(text) : text,
    };
    await assertMatchesOpenApi(url, method, path, answer);
    return answer;
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
    send,
    get: (path: string, token?: string) => send("GET", path, undefined, bearer(token)),
    post: (path: string, body?: unknown, token?: string) => send("POST", path, body, bearer(token)),
    put: (path: string, body?: unknown, token?: string) => send("PUT", path, body, bearer(token)),
    delete: (path: string, token?: string) => send("DELETE", path, undefined, bearer(token)),
  };
}

/** An address that no other client of a run is likely to have. */
export function randomAddress(): string {
  return `10.${randomInt(256)}.${randomInt(256)}.${randomInt(1, 255)}`;
}

const bearer = (token: string | undefined): Record<string, string> =>
  token ? { authorization: `Bearer ${token}` } : {};
const isJson = (response: Response) => response.headers.get("content-type")?.startsWith("application/json") ?? false;
