/**
 * REST with openapi-fetch and the types that openapi-typescript has generated from `/openapi.json`.
 */
import createClient from "openapi-fetch";
import type { paths } from "./dist/api.ts";

const { GATEHOUSE_URL = "http://127.0.0.1:3000", EMAIL = "", PASSWORD = "" } = process.env;
const client = createClient<paths>({ baseUrl: GATEHOUSE_URL });

/** The body of a success. */
async function bodyOf<T>(call: Promise<{ data?: T; error?: { message: string } }>): Promise<T> {
  const { data, error } = await call;
  if (data === undefined) throw new Error(error?.message ?? "no body");
  return data;
}

const { accessToken } = await bodyOf(
  client.POST("/auth/login", { body: { email: EMAIL, password: PASSWORD } }),
);
const headers = { authorization: `Bearer ${accessToken}` };
const { email } = await bodyOf(client.GET("/user/profile", { headers }));
process.stdout.write(`${email}\n`);

const messages = [{ role: "user" as const, content: "case: plain" }];
const body = { provider: "provider-a", messages };
const stream = await bodyOf(client.POST("/ai/stream", { headers, body, parseAs: "stream" }));
let rest = "";
for await (const part of (stream as ReadableStream<BufferSource>).pipeThrough(
  new TextDecoderStream(),
)) {
  const lines = (rest + part).split("\n");
  rest = lines.pop() ?? ""; // a line may arrive in several parts
  for (const line of lines) {
    if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
    const { chunk, error } = JSON.parse(line.slice(6));
    if (error) throw new Error(error);
    process.stdout.write(chunk);
  }
}
process.stdout.write("\n");
