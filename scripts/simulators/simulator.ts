import http, {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { anthropicEncoder } from "./anthropic.ts";
import {
  type ChatRequest,
  type DialectEncoder,
  type ErrorAnswer,
  isError,
  type Received,
  tokensIn,
} from "./dialect-encoder.ts";
import { EMBEDDING_MODELS, embed } from "./embeddings.ts";
import { FAILURES, PASSING } from "./failing-cases.ts";
import { googleEncoder } from "./google.ts";
import { listenNear } from "./listen.ts";
import { MALFORMED } from "./malformed-cases.ts";
import { mistralEncoder, openaiEncoder } from "./openai.ts";
import { responsesEncoder } from "./responses.ts";
import { type Case, PIECES, respond, send } from "./script.ts";
import { CONTENTS, SHAPES } from "./whole-cases.ts";

/**
 * All cases by name. A request selects one in its last user message: `case: <name> [argument]`.
 */
export const CASES: Readonly<Record<string, Case>> = {
  ...SHAPES,
  ...CONTENTS,
  ...PASSING,
  ...FAILURES,
  ...MALFORMED,
};

/** The only valid key. */
export const KEY = "simulated-key";

/**
 * The encoder of each dialect, the prefix of its variables in the shipped catalogue, and the path
 * of its API.
 */
const DIALECTS = {
  openai: { encoderOf: openaiEncoder, variable: "OPENAI", path: "/v1" },
  anthropic: { encoderOf: anthropicEncoder, variable: "ANTHROPIC", path: "" },
  google: { encoderOf: googleEncoder, variable: "GEMINI", path: "" },
  "openai-compatible": { encoderOf: mistralEncoder, variable: "MISTRAL", path: "/v1" },
};
export type SimulatedDialect = keyof typeof DIALECTS;
export const SIMULATED_DIALECTS = Object.keys(DIALECTS) as SimulatedDialect[];

/**
 * The URLs and credentials of a cloud in front of a dialect.
 * @returns the request as the dialect expects it, or why it is refused
 */
export type Door = (
  request: Received & { method: string; url: string; raw: Buffer },
) => Received | ErrorAnswer;

/** A received request and its state. */
export type SimulatedRequest = {
  path: string;
  headers: IncomingHttpHeaders;
  body: unknown;
  /** The body as it came. */
  text: string;
  /** The client's end of its connection. */
  port: number | undefined;
  /** When the connection closed or the answer was finished, by `performance.now()`. */
  closedAt?: number;
  /** The bytes that its connection has sent to the client so far. */
  readonly sentBytes: number;
};

/**
 * Starts a provider on the loopback interface that speaks one dialect and is as strict as the real
 * one.
 * @param paceMs the pause between the pieces of a reply, for demonstrations
 * @param voice what it says where no case is asked for, in pieces
 * @param door by default the URLs and the key of the vendor itself
 */
export async function startProviderSimulator({
  dialect,
  paceMs = 0,
  voice = friendly,
  door = (request) => request,
}: {
  dialect: SimulatedDialect;
  paceMs?: number;
  voice?: (request: ChatRequest) => string[];
  door?: Door;
}) {
  const { encoderOf, variable, path } = DIALECTS[dialect];
  const chat: DialectEncoder = encoderOf(KEY);
  const responses = responsesEncoder(KEY);
  const requests: SimulatedRequest[] = [];
  const attempts = new Map<string, number>();

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://simulator");
    const raw = await bytesOf(request);
    const body = parsed(raw);
    const { socket, method = "", headers } = request;
    const record: SimulatedRequest = {
      path: url.pathname,
      headers,
      body,
      text: raw.toString(),
      port: socket.remotePort,
      get sentBytes() {
        return socket.bytesWritten;
      },
    };
    requests.push(record);
    response.on("close", () => {
      record.closedAt = performance.now();
    });
    const sendJson = ({ status, body }: ErrorAnswer) =>
      void response
        .writeHead(status, { "content-type": "application/json" })
        .end(JSON.stringify(body));
    const arrived = { path: url.pathname, query: url.searchParams, headers, body };
    const received = door({ ...arrived, method, url: request.url ?? "/", raw });
    if ("status" in received) return sendJson(received);
    const models = EMBEDDING_MODELS[dialect];
    if (models && received.path === "/v1/embeddings") return sendJson(embed(received, KEY, models));
    const isResponse = dialect === "openai" && received.path.endsWith("/responses");
    const encoder = isResponse ? responses : chat;
    const chatRequest = encoder.read(received);
    if (isError(chatRequest)) return sendJson(chatRequest);
    const attempt = (attempts.get(chatRequest.lastMessage) ?? 0) + 1;
    attempts.set(chatRequest.lastMessage, attempt);
    await answer(encoder, chatRequest, attempt, response);
  }

  function answer(
    encoder: DialectEncoder,
    chatRequest: ChatRequest,
    attempt: number,
    response: ServerResponse,
  ): Promise<void> {
    const [, name, argument = ""] = /^case: (\S+) ?(\S*)/m.exec(chatRequest.lastMessage) ?? [];
    const chosen = name === undefined ? {} : CASES[name];
    if (!chosen) throw new Error(`There is no case "${name}".`);
    const pieces = chosen.pieces?.(argument) ?? (name === undefined ? voice(chatRequest) : PIECES);
    const text = pieces.join("");
    const tokens = chosen.tokens?.(argument) ?? {
      input: tokensIn(chatRequest.input),
      output: tokensIn(text),
    };
    const events = encoder.events(pieces, tokens, chatRequest);
    const whole = encoder.whole(text, tokens, chatRequest);
    const paced: Case = { send: (...reply) => send(...reply, paceMs) };
    const one = name === undefined && chatRequest.stream && paceMs > 0 ? paced : chosen;
    return respond(one, { response, encoder, chatRequest, attempt, argument, events, whole });
  }

  const server = http.createServer((request, response) => {
    response.on("error", () => {});
    handle(request, response).catch((error) => response.writeHead(500).end(String(error)));
  });
  const url = await listenNear(server);
  return {
    /** The origin. */
    url,
    /** Variables that make a process use this provider. */
    env: { [`${variable}_API_KEY`]: KEY, [`${variable}_BASE_URL`]: url + path },
    requests,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** A reply that quotes the prompt. */
function friendly({ model, lastMessage }: ChatRequest): string[] {
  const topic = lastMessage.replace(/\s+/g, " ").slice(0, 200);
  return `This is ${model}, simulated. You said: "${topic}" I couldn't agree more. 👋`.split(
    /(?<= )/,
  );
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function parsed(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString());
  } catch {
    return {};
  }
}
