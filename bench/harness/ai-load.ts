import { Agent, type ClientRequest, type IncomingMessage, request as send } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Server } from "./server.ts";
import { quantile } from "./statistics.ts";

/** A chat, a stream, or a stream that stays open. */
export type Kind = "chat" | "stream" | "open";
/** A gateway under test: its processes and its requests. */
export type Contender = {
  name: string;
  url: string;
  servers: Server[];
  /** @param turn number of the request, to distribute requests among users */
  ask(kind: Kind, turn: number): { path: string; headers: Record<string, string>; body: string };
};

/**
 * Result of a load: p50 and p99 in ms until the response (chat) or the first chunk (stream), and
 * CPU per request in µs.
 */
export type Sample = { ms: number; p99: number; cpuMicros: number };

const agent = new Agent({ keepAlive: true, maxSockets: 5_000 });
let turn = 0;

/**
 * Sends a number of requests, `atOnce` of them concurrently.
 * @param spreadMs time over which the first ones start, in ms
 * @throws Error if a response is not complete
 */
export async function load(
  contender: Contender,
  kind: Kind,
  count: number,
  atOnce: number,
  spreadMs = 0,
): Promise<Sample> {
  const cpu = () => contender.servers.reduce((sum, server) => sum + server.cpuMs(), 0);
  const times: number[] = [];
  let left = count;
  const before = cpu();
  const work = async (_: unknown, i: number) => {
    if (spreadMs > 0) await sleep((spreadMs * i) / atOnce);
    while (left-- > 0) times.push(await once(contender, kind));
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  const used = cpu() - before;
  return {
    ms: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    cpuMicros: (used * 1000) / count,
  };
}

/** Opens streams and waits for the first chunk of each. Returns a function that closes them. */
export async function openStreams(contender: Contender, count: number): Promise<() => void> {
  const requests: ClientRequest[] = [];
  const open = async () => {
    const { request, response } = await begin(contender, "open");
    requests.push(request);
    response.on("error", () => {});
    await new Promise<void>((resolve) =>
      response.on("data", (part) => String(part).includes("words") && resolve()),
    );
  };
  for (let i = 0; i < count; i += 50)
    await Promise.all(Array.from({ length: Math.min(50, count - i) }, open));
  return () => {
    for (const request of requests) request.destroy();
  };
}

async function once(contender: Contender, kind: Kind): Promise<number> {
  const startedAt = performance.now();
  const { response } = await begin(contender, kind);
  return new Promise((resolve, reject) => {
    let firstMs: number | undefined;
    let body = "";
    response.setEncoding("utf8").on("data", (part: string) => {
      body += part;
      if (firstMs === undefined && body.includes("words")) firstMs = performance.now() - startedAt;
    });
    response.on("error", reject).on("end", () => {
      const isWhole =
        body.split("words").length === 51 &&
        (kind === "chat" || body.trimEnd().endsWith("data: [DONE]"));
      if (response.statusCode !== 200 || !isWhole)
        return reject(new Error(`${contender.name}: ${response.statusCode} ${body}`));
      resolve(kind === "chat" ? performance.now() - startedAt : (firstMs as number));
    });
  });
}

function begin(
  contender: Contender,
  kind: Kind,
): Promise<{ request: ClientRequest; response: IncomingMessage }> {
  const { path, headers, body } = contender.ask(kind, turn++);
  return new Promise((resolve, reject) => {
    const request = send(contender.url + path, {
      method: "POST",
      agent,
      headers: {
        ...headers,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
      },
    });
    request.on("response", (response) => resolve({ request, response })).on("error", reject);
    request.end(body);
  });
}
