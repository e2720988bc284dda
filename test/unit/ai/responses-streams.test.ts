import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { CALLING } from "../../../scripts/simulators/dialect-encoder.ts";
import { responsesEncoder } from "../../../scripts/simulators/responses.ts";
import { encode } from "../../../scripts/simulators/script.ts";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import type { RelayPrompt } from "../../../services/ai/providers/provider.ts";
import { providerAnswering } from "./support.ts";

const [model] = readCatalogue().providers.flatMap(({ models }) => models);
const PROMPT = {
  ...{ model, isStream: true },
  relay: { api: "responses", bytes: 0, images: 0, files: 0, bodyFor: () => "{}", headers: {} },
} as unknown as RelayPrompt;

const { calling, lineEnd } = responsesEncoder("key");
const stream = Buffer.from(calling.events.map((event) => encode(event, lineEnd)).join(""));

/** Relays a stream of the Responses API that arrives in parts. */
async function relay(...parts: Uint8Array[]) {
  const message = new PassThrough() as unknown as PassThrough & IncomingMessage;
  Object.assign(message, { statusCode: 200, headers: {}, complete: false });
  const provider = providerAnswering(openaiAdapter, async () => message);
  const read = { data: "", text: "", reasoning: "", calls: "", usage: {}, finish: "", failure: "" };
  for (const part of parts) message.write(part);
  message.end();
  try {
    for await (const event of provider(PROMPT as never, new AbortController().signal)) {
      if (event.kind === "relayed") read.data += event.data;
      if (event.kind === "text" || event.kind === "reasoning") read[event.kind] += event.text;
      if (event.kind === "tool-call") read.calls += event.arguments;
      if (event.kind === "usage") read.usage = event.usage;
      if (event.kind === "finished") read.finish = event.reason;
    }
  } catch (error) {
    read.failure = (error as Error).message;
  }
  return read;
}

test("Responses API: a stream is passed on and read completely, wherever it is split in two", async () => {
  const whole = await relay(stream);
  expect(whole).toMatchObject({
    ...{ data: String(stream), text: CALLING.text, finish: "tool_calls", failure: "" },
    usage: { inputTokens: 40, outputTokens: 30 },
  });
  for (const { pieces } of CALLING.calls) expect(whole.calls).toContain(pieces.join(""));
  for (let at = 1; at < stream.length; at++)
    expect(await relay(stream.subarray(0, at), stream.subarray(at)), String(at)).toEqual(whole);
});

test("Responses API: a stream without its last event is incomplete, wherever it ends", async () => {
  const last = stream.indexOf("event: response.completed");
  for (let at = 1; at < stream.length - 2; at += 3) {
    const { data, finish, failure } = await relay(stream.subarray(0, at));
    expect([finish, failure !== ""], String(at)).toEqual(["", true]);
    expect(String(stream.subarray(0, last)).startsWith(data), String(at)).toBe(true);
  }
});
