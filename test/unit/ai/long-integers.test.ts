import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import { type CatalogueProvider, readCatalogue } from "../../../services/ai/catalogue.ts";
import type { Prompt } from "../../../services/ai/providers/provider.ts";
import { parseExactly } from "../../../services/platform/rpc/exact-json.ts";
import { CODECS, promptFor, providerAnswering } from "./support.ts";

/** No number can hold it: it would become 12345678901234567000. */
const ID = "12345678901234567890";
const ARGUMENTS = `{"id":${ID}}`;
const tool = {
  name: "look_up",
  parameters: parseExactly(`{"properties":{"id":{"maximum":${ID}}}}`) as object,
};
const call = { id: "call_abcdefghi", name: "look_up", arguments: ARGUMENTS };

const OPENAI = `{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"call_1","type":"function",
  "function":{"name":"look_up","arguments":${ARGUMENTS}}}]},"finish_reason":"tool_calls"}],
  "usage":{"prompt_tokens":1,"completion_tokens":1}}`;
/**
 * A whole reply that calls the tool. OpenAI's have arguments as an object, which some servers send.
 */
const REPLIES: Record<string, string> = {
  openai: OPENAI,
  "openai-compatible": OPENAI,
  anthropic: `{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"look_up",
    "input":${ARGUMENTS}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`,
  google: `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"look_up","args":${ARGUMENTS}}}]},
    "finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`,
};

describe.each(CODECS)("Integers beyond 2^53: %s", (dialect, _encoder, adapter) => {
  test("arguments and schemas reach the provider, and arguments the caller, unchanged", async () => {
    let sent = "";
    const post = async (_target: object, _headers: object, document: object) => {
      sent = JSON.stringify(document);
      const headers = { "content-type": "application/json" };
      return Object.assign(Readable.from([Buffer.from(REPLIES[dialect] ?? "")]), {
        ...{ statusCode: 200, headers, complete: true },
      });
    };
    const provider = providerAnswering(adapter, post);
    const entry = readCatalogue().providers.find((each) => each.dialect === dialect);
    const messages: Prompt["messages"] = [
      { role: "user", parts: [{ text: "Who is it?" }] },
      { role: "assistant", parts: [], toolCalls: [call] },
      { role: "tool", parts: [{ text: "Nobody." }], resultOf: call },
    ];
    const prompt = {
      ...promptFor(entry as CatalogueProvider, ""),
      ...{ messages, tools: [tool], isStream: false },
    };
    let called = "";
    for await (const event of provider(prompt, new AbortController().signal))
      if (event.kind === "tool-call") called += event.arguments;
    expect(called).toBe(ARGUMENTS);
    expect(sent.replaceAll("\\", "").split(ID)).toHaveLength(3);
  });
});
