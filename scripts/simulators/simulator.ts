import http, { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { anthropicEncoder } from "./anthropic.ts";
import { type ChatRequest, type DialectEncoder, isError, tokensIn } from "./dialect-encoder.ts";
import { FAILURES, PASSING } from "./failing-cases.ts";
import { googleEncoder } from "./google.ts";
import { MALFORMED } from "./malformed-cases.ts";
import { mistralEncoder, openaiEncoder } from "./openai.ts";
import { type Case, PIECES, respond, sendPaced } from "./script.ts";
import { CONTENTS, SHAPES } from "./whole-cases.ts";

/** Every case by its name. A request asks for one in its last user message: `case: <name> [argument]`. */
export const CASES: Readonly<Record<string, Case>> = { ...SHAPES, ...CONTENTS, ...PASSING, ...FAILURES, ...MALFORMED };

const ENCODERS = {
  openai: openaiEncoder,
  anthropic: anthropicEncoder,
  google: googleEncoder,
  "openai-compatible": mistralEncoder,
};
export type SimulatedDialect = keyof typeof ENCODERS;

/** A request as it came, and what has become of it. */
export type SimulatedRequest = {
  path: string;
  headers: IncomingHttpHeaders;
  body: unknown;
  /** The client's end of its connection. */
  port: number | undefined;
  /** When the connection closed or the answer was finished, by `performance.now()`. */
  closedAt?: number;
  /** What its connection has carried towards the client so far. */
  readonly sentBytes: number;
};

export type Simulator = {
  /** The origin; the OpenAI dialects live under `/v1` of it. */
  url: string;
  requests: SimulatedRequest[];
  readonly openSockets: number;
  close(): Promise<void>;
};

type Options = {
  dialect: SimulatedDialect;
  /** The one key that is let in. */
  key?: string;
  port?: number;
  /** Milliseconds between the pieces of a reply, for demonstrations. */
  paceMs?: number;
};

/** Starts a provider on the loopback interface that speaks one dialect and is as strict as the real one. */
export async function startProviderSimulator({ dialect, key = "simulated-key", port = 0, paceMs = 0 }: Options) {
  const encoder: DialectEncoder = ENCODERS[dialect](key);
  const requests: SimulatedRequest[] = [];
  const sockets = new Set<Socket>();
  const attempts = new Map<string, number>();

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://simulator");
    const body = await bodyOf(request);
    const { socket } = request;
    const record: SimulatedRequest = {
      path: url.pathname,
      headers: request.headers,
      body,
      port: socket.remotePort,
      get sentBytes() {
        return socket.bytesWritten;
      },
    };
    requests.push(record);
    response.on("close", () => {
      record.closedAt = performance.now();
    });
    const chatRequest = encoder.read({ path: url.pathname, query: url.searchParams, headers: request.headers, body });
    if (isError(chatRequest)) {
      response.writeHead(chatRequest.status, { "content-type": "application/json", ...chatRequest.headers });
      return void response.end(JSON.stringify(chatRequest.body));
    }
    const attempt = (attempts.get(chatRequest.lastMessage) ?? 0) + 1;
    attempts.set(chatRequest.lastMessage, attempt);
    await answer(chatRequest, attempt, response);
  }

  function answer(chatRequest: ChatRequest, attempt: number, response: ServerResponse): Promise<void> {
    const [, name, argument = ""] = /^case: (\S+) ?(\S*)/m.exec(chatRequest.lastMessage) ?? [];
    const chosen = name === undefined ? {} : CASES[name];
    if (!chosen) throw new Error(`There is no case "${name}".`);
    const pieces = chosen.pieces?.(argument) ?? (name === undefined ? friendly(chatRequest) : PIECES);
    const text = pieces.join("");
    const tokens = { input: tokensIn(chatRequest.input), output: tokensIn(text) };
    const events = encoder.events(pieces, tokens, chatRequest);
    const whole = encoder.whole(text, tokens, chatRequest);
    const paced: Case = { send: (exchange, parts, headers) => sendPaced(exchange.response, parts, headers, paceMs) };
    const one = name === undefined && chatRequest.stream && paceMs > 0 ? paced : chosen;
    return respond(one, { response, encoder, chatRequest, attempt, argument, events, whole });
  }

  const server = http.createServer((request, response) => {
    response.on("error", () => {});
    handle(request, response).catch((error) => response.writeHead(500).end(String(error)));
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const simulator: Simulator = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get openSockets() {
      return sockets.size;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return simulator;
}

/** An answer that shows that the prompt arrived. */
function friendly({ model, lastMessage }: ChatRequest): string[] {
  const topic = lastMessage.replace(/\s+/g, " ").slice(0, 200);
  return `This is ${model}, simulated. You said: "${topic}" I couldn't agree more. 👋`.split(/(?<= )/);
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    return {};
  }
}
