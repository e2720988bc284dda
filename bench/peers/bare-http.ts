/**
 * Lower bound of the cost of an AI call: bare `node:http` that reads the caller's session from
 * PostgreSQL while Redis counts the call, records its usage, and decodes and re-encodes the reply
 * of UPSTREAM. It has no checks, time limits, retries, size limits or metrics.
 */
import { randomUUID } from "node:crypto";
import {
  Agent,
  createServer,
  type IncomingMessage,
  type ServerResponse,
  request as send,
} from "node:http";
import type { AddressInfo } from "node:net";
import { Redis } from "ioredis";
import pg from "pg";

const WINDOW_MS = 60_000;
/** Usage rows are collected for this time before they are written, in ms. */
const GATHER_MS = 20;
const agent = new Agent({ keepAlive: true });
const upstream = new URL(process.env.UPSTREAM as string);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const redis = new Redis(process.env.REDIS_URL as string, { enableAutoPipelining: true });

type Claims = { sid: string; sub: string };
const known = new Map<string, Claims>();
function claimsIn(token: string): Claims {
  const claims =
    known.get(token) ?? JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
  known.set(token, claims);
  return claims;
}

/** Look-ups in one turn of the event loop share a statement. */
let asked = new Set<string>();
let looking: Promise<Set<string>> | undefined;
async function isOpen(session: string): Promise<boolean> {
  asked.add(session);
  looking ??= new Promise((resolve, reject) => {
    setImmediate(() => {
      const text = `select u.*, s.id from sessions s join users u on u.id = s.user_id
        where s.id = any($1) and s.revoked_at is null and s.expires_at > now()`;
      const found = pool.query({ name: "sessions", text, values: [[...asked]] });
      [asked, looking] = [new Set(), undefined];
      found.then(({ rows }) => resolve(new Set(rows.map(({ id }) => id))), reject);
    });
  });
  return (await looking).has(session);
}

type Row = { id: string; user_id: string; outcome: string; tokens: number; created_at: Date };
let rows = new Map<string, Row>();
function record(row: Row): void {
  if (rows.size === 0) setTimeout(flush, GATHER_MS);
  rows.set(row.id, row);
}
function flush(): void {
  const text = `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, output_tokens, estimated, created_at)
    select id, user_id, 'provider-a', 'model-a-1', outcome, tokens, tokens, false, created_at
    from jsonb_to_recordset($1) as t (id uuid, user_id uuid, outcome text, tokens int, created_at timestamptz)
    on conflict (id) do update set outcome = excluded.outcome, output_tokens = excluded.output_tokens`;
  pool
    .query({ name: "usage", text, values: [JSON.stringify([...rows.values()])] })
    .catch(() => process.exit(1));
  rows = new Map();
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  body: string,
): Promise<void> {
  const { sid, sub } = claimsIn(request.headers.authorization?.slice("Bearer ".length) ?? "");
  const key = `bench:${sub}`;
  const counted = redis.multi().incr(key).pexpire(key, WINDOW_MS, "NX").exec();
  if (!(await Promise.all([isOpen(sid), counted]))[0]) return void response.writeHead(401).end();
  const row: Row = {
    id: randomUUID(),
    user_id: sub,
    outcome: "running",
    tokens: 0,
    created_at: new Date(),
  };
  record(row);
  const isStream = request.url === "/ai/stream";
  const { messages } = JSON.parse(body);
  const { hostname, port } = upstream;
  const headers = { authorization: "Bearer bench-key", "content-type": "application/json" };
  const onward = send({
    hostname,
    port,
    path: "/v1/chat/completions",
    method: "POST",
    agent,
    headers,
  });
  onward.on("error", () => response.destroy());
  onward.on("response", (reply) =>
    (isStream ? streamed : whole)(reply.setEncoding("utf8"), response, row),
  );
  onward.end(JSON.stringify({ model: "gpt-5", messages, ...(isStream && { stream: true }) }));
}

function whole(reply: IncomingMessage, response: ServerResponse, row: Row): void {
  let text = "";
  reply.on("data", (part: string) => {
    text += part;
  });
  reply.on("end", () => {
    const { choices, usage } = JSON.parse(text);
    record({ ...row, outcome: "completed", tokens: usage.total_tokens });
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ content: choices[0].message.content, usage }));
  });
}

function streamed(reply: IncomingMessage, response: ServerResponse, row: Row): void {
  let rest = "";
  response.writeHead(200, { "content-type": "text/event-stream" });
  reply.on("data", (part: string) => {
    const events = (rest + part).split("\n\n");
    rest = events.pop() ?? "";
    const frames = events
      .map((event) => event.slice("data: ".length))
      .filter((data) => data !== "[DONE]");
    const chunk = frames.map((data) => JSON.parse(data).choices[0]?.delta.content ?? "").join("");
    if (chunk !== "") response.write(`data: ${JSON.stringify({ chunk })}\n\n`);
  });
  reply.on("end", () => {
    record({ ...row, outcome: "completed" });
    response.end("data: [DONE]\n\n");
  });
}

const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (part: string) => {
    body += part;
  });
  request.on("end", () => answer(request, response, body).catch(() => response.destroy()));
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.once("SIGTERM", () => process.exit(0));
