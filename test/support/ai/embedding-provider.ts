// Embedding models in a catalogue, and their provider, whose responses a test chooses.

import { readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { temporaryFolder } from "../temporary-folder.ts";

/** A request for embeddings, with the key that it has. */
export type EmbeddingRequest = { key: string; model: string; input: string[] };
/** A status and a body, as JSON or as its text. */
type Answer = (request: EmbeddingRequest) => { status?: number; body: object | string };

/** The price of an input token of `embed-a` and `embed-odd`, in billionths. */
export const PRICE_NANOS = 20n;
const price = { input: 0.02, output: 0 };

/** Vectors of four numbers, with a token for each text. */
export const embeddingsOf = ({ input }: Pick<EmbeddingRequest, "input">) => ({
  object: "list",
  data: input.map((_text, index) => ({
    object: "embedding",
    index,
    embedding: [index, 0.5, -0.25, 1e-9],
  })),
  usage: { prompt_tokens: input.length, total_tokens: input.length },
});

/**
 * Starts the provider, and writes a catalogue: `embed-a` of `provider-a`, `embed-d` of
 * `provider-d`, which has no price, and `embed-odd` of the provider `odd`, which has two keys. No
 * model adds its own tokens.
 */
export async function startEmbeddingProvider() {
  const usual: Answer = (request) => ({ body: embeddingsOf(request) });
  let answer = usual;
  const requests: EmbeddingRequest[] = [];
  const server = http.createServer(async (raw, response) => {
    response.on("error", () => {});
    const parts: Buffer[] = [];
    for await (const part of raw) parts.push(part as Buffer);
    const key = raw.headers.authorization?.replace("Bearer ", "") ?? "";
    const request = { key, ...JSON.parse(Buffer.concat(parts).toString()) };
    requests.push(request);
    const { status = 200, body } = answer(request);
    response
      .writeHead(status, { "content-type": "application/json" })
      .end(typeof body === "string" ? body : JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const shipped = JSON.parse(readFileSync("services/ai/catalogue/neutral.json", "utf8"));
  const usualModel = { kind: "embedding", overheadTokens: 0 };
  const [first, , , fourth] = shipped.providers;
  first.models.push({
    ...{ name: "embed-a", upstream: "text-embedding-3-small", price },
    ...usualModel,
  });
  fourth.models.push({ name: "embed-d", upstream: "mistral-embed", ...usualModel });
  const odd = {
    id: "odd",
    dialect: "openai-compatible",
    keyVariable: "ODD_KEY",
    baseUrlVariable: "ODD_URL",
    baseUrl: `${origin}/v1`,
    models: [{ name: "embed-odd", upstream: "odd", price, ...usualModel }],
  };
  const aliases = [
    { name: "assistant", targets: [{ provider: "provider-a", model: "model-a-1" }] },
  ];
  const path = join(temporaryFolder(), "embeddings.json");
  writeFileSync(
    path,
    JSON.stringify({ ...shipped, providers: [...shipped.providers, odd], aliases }),
  );
  return {
    /** Variables that make a process use the catalogue. */
    env: { AI_CATALOG: path, ODD_KEY: "odd-first,odd-second" },
    /** Sets the responses of the provider from now on; by default {@link embeddingsOf}. */
    answerWith: (next: Answer = usual) => {
      answer = next;
    },
    /** The requests so far. */
    requests,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
