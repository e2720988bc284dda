// An AI provider that replays responses step by step.

import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as wait } from "node:timers/promises";

/** One step of a response: bytes of its body, a pause, or the way it ends. */
export type Step =
  | { bytes: string | Uint8Array }
  | { waitMs: number }
  | { end: "close body" | "reset" };

/** A response, step by step. */
export type ScriptedResponse = {
  status: number;
  headers: Record<string, string>;
  steps: readonly Step[];
};

const KEYS = ["OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL"];

/**
 * Starts a provider of all dialects that sends the responses it is given, byte for byte. A request
 * names its script by its maximum number of tokens, which every dialect has and no estimate counts.
 */
export async function startScriptedProvider() {
  const scripts: (readonly ScriptedResponse[])[] = [[]]; // 0 would be no maximum
  const calls: number[] = [];

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const number = numberIn(await bodyOf(request));
    const script = scripts[number] ?? [];
    const attempt = calls[number] ?? 0;
    calls[number] = attempt + 1;
    const scripted = script[attempt] ?? script.at(-1);
    if (!scripted) return void response.writeHead(404).end();
    await send(scripted, response);
  }

  const server = http.createServer((request, response) => {
    response.on("error", () => {});
    answer(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const variables = KEYS.flatMap((name) => [
    [`${name}_API_KEY`, "scripted-key"],
    [`${name}_BASE_URL`, url],
  ]);
  return {
    url,
    /** Variables that make a process use this provider for every dialect. */
    env: Object.fromEntries(variables) as Record<string, string>,
    /**
     * Adds a script: the response to the first request, to the second, and so on.
     * @returns its number, which is the `maxTokens` of the requests for it
     */
    add(script: readonly ScriptedResponse[]): number {
      return scripts.push(script) - 1;
    },
    /** The number of requests for a script. */
    callsOf: (number: number) => calls[number] ?? 0,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function send({ status, headers, steps }: ScriptedResponse, response: ServerResponse) {
  response.writeHead(status, headers);
  for (const step of steps) {
    if (response.destroyed) return;
    if ("waitMs" in step) await wait(step.waitMs);
    else if ("bytes" in step) response.write(step.bytes);
    else if (step.end === "reset") response.socket?.resetAndDestroy();
    else response.end();
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const part of request) body += part;
  return body;
}

/** The maximum number of tokens, under the name of any dialect. */
const numberIn = (body: string) =>
  Number(/"(?:max_tokens|max_completion_tokens|maxOutputTokens)":(\d+)/.exec(body)?.[1]);
