// An AI provider in the dialect of OpenAI that obeys the maximum of a request and meters what it
// serves.

import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as wait } from "node:timers/promises";

/** What the provider has charged for. */
export type Metered = { inputTokens: number; outputTokens: number };

/**
 * Starts it. The last message says how long its reply is and how it comes, such as `40 tokens, 5 ms
 * each`. Each token is a piece of four characters. The input has a token per eight bytes. `504` is
 * answered with that status, as by a proxy that has waited too long, and `503 by`, followed by a
 * model, with that one by this model.
 */
export async function startMeteredProvider() {
  const metered: Metered[] = [];
  const requests: { stream?: boolean; max_completion_tokens?: number; max_tokens?: number }[] = [];

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request);
    const { model, messages, stream, max_completion_tokens, max_tokens } = JSON.parse(body);
    requests.push(JSON.parse(body));
    const text: string = messages.at(-1).content;
    if (text === "504") return void response.writeHead(504).end();
    if (text.includes(`503 by ${model}`)) return void response.writeHead(503).end();
    const asked = Number(/(\d+) tokens/.exec(text)?.[1] ?? 10);
    const paceMs = Number(/(\d+) ms each/.exec(text)?.[1] ?? 0);
    const most = max_completion_tokens ?? max_tokens ?? Number.POSITIVE_INFINITY;
    const outputTokens = Math.min(asked, most);
    const inputTokens = Math.ceil(Buffer.byteLength(text) / 8);
    const meter: Metered = { inputTokens, outputTokens: 0 };
    metered.push(meter);
    const finish_reason = outputTokens < asked ? "length" : "stop";
    const served = { meter, outputTokens, finish_reason };
    if (stream) return sendStream(response, served, paceMs);
    meter.outputTokens = outputTokens;
    const message = { role: "assistant", content: "abc ".repeat(outputTokens) };
    const whole = { choices: [{ index: 0, message, finish_reason }], usage: usageOf(meter) };
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(whole));
  }

  const server = http.createServer((request, response) => {
    response.on("error", () => {});
    answer(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    /** Variables that make a process use this provider for `provider-a`. */
    env: { OPENAI_API_KEY: "metered", OPENAI_BASE_URL: url },
    /** What each request has been served. */
    metered,
    /** The bodies of the requests. */
    requests,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const usageOf = ({ inputTokens, outputTokens }: Metered) => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
});

type Served = { meter: Metered; outputTokens: number; finish_reason: string };

async function sendStream(
  response: ServerResponse,
  { meter, outputTokens, finish_reason }: Served,
  paceMs: number,
): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (data: object) => response.write(`data: ${JSON.stringify(data)}\n\n`);
  const choice = (delta: object, reason: string | null = null) =>
    send({ choices: [{ index: 0, delta, finish_reason: reason }] });
  for (; meter.outputTokens < outputTokens && !response.destroyed; meter.outputTokens++) {
    choice({ content: "abc " });
    if (paceMs > 0) await wait(paceMs);
  }
  if (response.destroyed) return;
  choice({}, finish_reason);
  send({ choices: [], usage: usageOf(meter) });
  response.end("data: [DONE]\n\n");
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const part of request) body += part;
  return body;
}
