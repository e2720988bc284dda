/**
 * CPU of the client side of one chat: `node:http` alone, this project's provider client, and the
 * vendors' SDKs, with 16 concurrent chats. The provider is simulated in another process.
 */
import http from "node:http";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { readCatalogue } from "../../services/ai/catalogue.ts";
import { openProviders } from "../../services/ai/providers/providers.ts";
import { closeAll } from "../harness/cleanup.ts";
import { startServer } from "../harness/server.ts";
import { ROUNDS } from "../harness/settings.ts";
import { record } from "../table.ts";

const CHATS = 2_000;
const AT_ONCE = 16;
const MESSAGES = [
  { role: "user" as const, content: "Say a few words, please, and then a few more." },
];
const agent = new http.Agent({ keepAlive: true });

/** Posts a document over `node:http` and collects the response. */
function post(url: string, headers: http.OutgoingHttpHeaders, body: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: "POST", agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => resolve(Buffer.concat(chunks))).on("error", reject);
    });
    request.on("error", reject).end(body);
  });
}

/** A `fetch` over `node:http`, to measure an SDK without its HTTP client. */
const fetchOverHttp: typeof fetch = async (url, init) => {
  const headers = Object.fromEntries(new Headers(init?.headers));
  return new Response(new Uint8Array(await post(String(url), headers, String(init?.body))));
};

async function clients(origin: string): Promise<Record<string, () => Promise<unknown>>> {
  const baseURL = `${origin}/v1`;
  const catalogue = readCatalogue();
  const [entry] = catalogue.providers;
  const variables = { [entry?.keyVariable ?? ""]: "key", [entry?.baseUrlVariable ?? ""]: baseURL };
  const provider = entry && openProviders(catalogue, variables).byId.get(entry.id);
  if (!provider) throw new Error("The provider is not configured.");
  const { signal } = new AbortController();
  const openaiRequest = { model: "gpt-5", messages: MESSAGES };
  const anthropicRequest = { model: "claude", max_tokens: 100, messages: MESSAGES };
  const openai = new OpenAI({ baseURL, apiKey: "key", fetch: fetchOverHttp });
  const openaiFetch = new OpenAI({ baseURL, apiKey: "key" });
  const anthropic = new Anthropic({ baseURL: origin, apiKey: "key", fetch: fetchOverHttp });
  const headers = { authorization: "Bearer key", "content-type": "application/json" };
  return {
    "node:http": async () =>
      JSON.parse(
        String(await post(`${baseURL}/chat/completions`, headers, JSON.stringify(openaiRequest))),
      ),
    "services/ai/providers": async () => {
      for await (const _ of provider(
        {
          model: entry.models[0],
          isStream: false,
          messages: MESSAGES.map(({ role, content }) => ({ role, parts: [{ text: content }] })),
        },
        signal,
      ));
    },
    "OpenAI SDK, request only": async () =>
      (await openai.chat.completions.create(openaiRequest).asResponse()).json(),
    "Anthropic SDK, request only": async () =>
      (await anthropic.messages.create(anthropicRequest).asResponse()).json(),
    "OpenAI SDK": () => openaiFetch.chat.completions.create(openaiRequest),
  };
}

/** Returns the CPU per chat, in µs. */
async function measure(chat: () => Promise<unknown>): Promise<number> {
  let left = CHATS;
  const before = process.cpuUsage();
  const work = async () => {
    while (left-- > 0) await chat();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / CHATS;
}

try {
  const upstream = await startServer(["bench/peers/provider.ts"], {}, 1);
  const contenders = Object.entries(await clients(upstream.url));
  const costs = new Map(contenders.map(([name]) => [name, [] as number[]]));
  for (const [, chat] of contenders) await measure(chat); // warm up
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, chat] of contenders) costs.get(name)?.push(await measure(chat));
  }
  for (const [name, own] of costs) record("client side of one chat", "CPU µs", name, own);
} finally {
  agent.destroy();
  await closeAll();
}
