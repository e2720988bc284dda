/**
 * `npm run bench -- sdk-cost`: processor time of the client side per chat, 16 at once, against a local server that
 * answers at once: `node:http` directly, and the official SDKs. See docs/decisions/0003-own-decoder-for-providers.md.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { Anthropic } from "@anthropic-ai/sdk";
import { OpenAI } from "openai";

const CHATS = 4_000;
const ROUNDS = 5;
const AT_ONCE = 16;
const MODEL = "model-a-1";
const messages = [{ role: "user" as const, content: "Hello!" }];
const usage = { prompt_tokens: 2, completion_tokens: 2, total_tokens: 4, input_tokens: 2, output_tokens: 2 };
const message = { role: "assistant", content: "Hello to you." };
const openaiReply = {
  id: "1",
  object: "chat.completion",
  model: MODEL,
  choices: [{ index: 0, message, finish_reason: "stop" }],
  usage,
};
const anthropicReply = {
  id: "1",
  type: "message",
  role: "assistant",
  model: MODEL,
  content: [{ type: "text", text: message.content }],
  stop_reason: "end_turn",
  usage,
};

if (process.argv[2] === "upstream") serve();
else await main();

/** Answers every request at once. */
function serve(): void {
  const replies = [openaiReply, anthropicReply].map((reply) => JSON.stringify(reply));
  const server = createServer((incoming, response) => {
    incoming.resume().on("end", () => {
      response.setHeader("content-type", "application/json").end(replies[incoming.url === "/v1/messages" ? 1 : 0]);
    });
  });
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
  process.once("disconnect", () => process.exit());
}

async function main(): Promise<void> {
  const upstream = fork(import.meta.filename, ["upstream"]);
  const [port] = (await once(upstream, "message")) as [number];
  const origin = `http://127.0.0.1:${port}`;
  const agent = new Agent({ keepAlive: true });
  const options = { apiKey: "key", maxRetries: 0 };
  const fetch = fetchOver(agent);
  const openai = new OpenAI({ ...options, baseURL: `${origin}/v1` });
  const openaiOverHttp = new OpenAI({ ...options, baseURL: `${origin}/v1`, fetch });
  const anthropicOverHttp = new Anthropic({ ...options, baseURL: origin, fetch });
  const body = JSON.stringify({ model: MODEL, messages });
  const ways: Record<string, () => Promise<unknown>> = {
    "node:http directly": async () => JSON.parse(await send(agent, `${origin}/v1/chat/completions`, {}, body)),
    "Anthropic SDK, own fetch over node:http, asResponse()": async () =>
      (await anthropicOverHttp.messages.create({ model: MODEL, messages, max_tokens: 100 }).asResponse()).json(),
    "OpenAI SDK, own fetch over node:http, asResponse()": async () =>
      (await openaiOverHttp.chat.completions.create({ model: MODEL, messages }).asResponse()).json(),
    "OpenAI SDK with its own fetch": () => openai.chat.completions.create({ model: MODEL, messages }),
  };
  const figures = new Map<string, number[]>(Object.keys(ways).map((name) => [name, []]));
  for (let round = -1; round < ROUNDS; round++) {
    for (const [name, chat] of Object.entries(ways)) {
      const micros = await cpuPerChat(chat);
      if (round >= 0) figures.get(name)?.push(micros); // the first round warms up
    }
  }
  for (const [name, micros] of figures) {
    const median = micros.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? Number.NaN;
    process.stdout.write(`${median.toFixed(0).padStart(5)} µs  ${name}\n`);
  }
  agent.destroy();
  upstream.disconnect();
}

/** Runs all chats, so many at once. @returns µs of processor time per chat */
async function cpuPerChat(chat: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  let left = CHATS;
  const worker = async () => {
    while (left-- > 0) await chat();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / CHATS;
}

function send(agent: Agent, url: string, headers: Record<string, string>, body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const all = { "content-type": "application/json", ...headers, "content-length": Buffer.byteLength(body) };
    request(url, { agent, method: "POST", headers: all }, (response) => {
      let text = "";
      response
        .setEncoding("utf8")
        .on("data", (part) => {
          text += part;
        })
        .on("end", () => resolve(text));
    })
      .on("error", reject)
      .end(body);
  });
}

/** A `fetch` for the SDKs that sends by `node:http`. */
function fetchOver(agent: Agent): typeof globalThis.fetch {
  return async (url, init) => {
    const headers = Object.fromEntries(new Headers(init?.headers));
    return new Response(await send(agent, String(url), headers, String(init?.body)));
  };
}
