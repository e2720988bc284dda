// Providers whose failures a test chooses, in a catalogue with the shipped ones.

import { readFileSync, writeFileSync } from "node:fs";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { temporaryFolder } from "../temporary-folder.ts";

/** A request to a moody provider. */
export type MoodyRequest = { key: string; body: Record<string, unknown> };

/** How a provider answers. */
type Mood = (request: MoodyRequest, response: ServerResponse, raw: IncomingMessage) => void;

/** The text of a good reply. */
export const MOODY_REPLY = "At your service.";

const COMPLETION = {
  object: "chat.completion",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: MOODY_REPLY },
      finish_reason: "stop",
    },
  ],
  usage: { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 },
};
const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;

const USAGE = `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [], usage: COMPLETION.usage })}\n\n`;

/** Answers with a good reply: 11 tokens of input and 5 of output. */
export const works: Mood = ({ body }, response) => {
  if (!body.stream)
    return void response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify(COMPLETION));
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(`${chunk({ content: MOODY_REPLY })}${chunk({}, "stop")}${USAGE}data: [DONE]\n\n`);
};

/** Answers with an error. */
export const failsWith =
  (status: number, error: object = {}, headers: Record<string, string> = {}): Mood =>
  (_request, response) =>
    void response
      .writeHead(status, { "content-type": "application/json", ...headers })
      .end(JSON.stringify({ error: { message: "sk-echo-of-a-key", ...error } }));

/** Resets the connection. */
export const resets: Mood = (_request, _response, { socket }) => socket.resetAndDestroy();

/** Never answers. */
export const isSilent: Mood = () => {};

/** Begins a stream and resets the connection. */
export const breaksOff: Mood = (_request, response, { socket }) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(chunk({ content: "At your" }), () =>
    setTimeout(() => socket.resetAndDestroy(), 20),
  );
};

/**
 * Starts providers of the dialect `openai-compatible`, each with one model of the same name, and
 * writes a catalogue that has them beside the shipped ones.
 * @param keys the values of their key variables, by their names
 * @param aliases of the catalogue
 * @param fields of models, by the same names
 */
export async function startMoodyProviders(
  keys: Readonly<Record<string, string>>,
  aliases: readonly object[],
  fields: Readonly<Record<string, object>> = {},
) {
  const moods = new Map<string, Mood>();
  const requests: (MoodyRequest & { provider: string })[] = [];
  const server = http.createServer(async (raw, response) => {
    response.on("error", () => {});
    response.shouldKeepAlive = false; // a reset of a new connection is not sent again
    const provider = raw.url?.split("/")[1] ?? "";
    const key = raw.headers.authorization?.replace("Bearer ", "") ?? "";
    const parts: Buffer[] = [];
    for await (const part of raw) parts.push(part);
    const request = { key, body: JSON.parse(Buffer.concat(parts).toString()) };
    requests.push({ ...request, provider });
    (moods.get(provider) ?? works)(request, response, raw);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const shipped = JSON.parse(readFileSync("services/ai/catalogue/neutral.json", "utf8"));
  const variableOf = (name: string) => `MOODY_${name.replaceAll("-", "_").toUpperCase()}`;
  const providers = Object.keys(keys).map((name) => ({
    id: name,
    dialect: "openai-compatible",
    keyVariable: `${variableOf(name)}_KEY`,
    baseUrlVariable: `${variableOf(name)}_URL`,
    baseUrl: `${origin}/${name}/v1`,
    models: [
      ...[
        { name, upstream: name, outputTokens: 4_000, schema: false, tools: false, ...fields[name] },
      ],
    ],
  }));
  const path = join(temporaryFolder(), "catalogue.json");
  writeFileSync(
    path,
    JSON.stringify({ ...shipped, providers: [...shipped.providers, ...providers], aliases }),
  );
  const variables = Object.entries(keys).map(([name, value]) => [`${variableOf(name)}_KEY`, value]);
  return {
    /** Variables that make a process use the catalogue. */
    env: { AI_CATALOG: path, ...Object.fromEntries(variables) } as Record<string, string>,
    /** Sets the responses of a provider from now on. */
    set: (provider: string, mood: Mood) => void moods.set(provider, mood),
    /** The requests to a provider so far. */
    requestsOf: (provider: string) => requests.filter((each) => each.provider === provider),
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
