import { test as base, expect } from "vitest";
import {
  type CompletionPiece,
  GatehouseError,
  type StreamChatRequest,
} from "../../../client/src/index.ts";
import { PREFIX, REPLY } from "../../../scripts/simulators/script.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { testApp } from "../../support/app.ts";
import { until } from "../../support/until.ts";
import { clientAt, signedInClient } from "./clients.ts";

const app = await testApp();
const test = base.extend("client", async () => (await signedInClient(app)).client);
const requestOf = (content: string) => conversationOf(content) as StreamChatRequest;

async function textOf(stream: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const piece of stream) text += piece;
  return text;
}

async function piecesIn(stream: AsyncIterable<CompletionPiece>): Promise<CompletionPiece[]> {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

test("Client: streams a reply in pieces, even with an access token that has expired", async ({
  client,
}) => {
  app.clock.advance("16m");
  expect(await textOf(client.ai.stream(requestOf("case: bytes")))).toBe(REPLY);
});

test("Client: an error event throws STREAM_ERROR after the pieces before it", async ({
  client,
}) => {
  let text = "";
  const reading = async () => {
    for await (const piece of client.ai.stream(requestOf("case: reset-midway"))) text += piece;
  };
  const failure = { code: "STREAM_ERROR", message: expect.stringContaining("provider-a") };
  await expect(reading()).rejects.toMatchObject(failure);
  expect(text).toBe(PREFIX);
});

test.for([
  { event: { error: "No.", code: "PROVIDER_ERROR" }, streamCode: "PROVIDER_ERROR" },
  { event: { error: "No." }, streamCode: undefined }, // an older service
])(
  "Client: STREAM_ERROR for $event has the streamCode $streamCode",
  async ({ event, streamCode }) => {
    const body = `data: ${JSON.stringify(event)}\n\ndata: [DONE]\n\n`;
    const client = clientAt(app.url, { fetch: async () => new Response(body) });
    const thrown = await textOf(client.ai.stream(requestOf("Hello."))).catch((error) => error);
    expect(thrown).toMatchObject({ code: "STREAM_ERROR", message: "No." });
    expect(thrown.streamCode).toBe(streamCode);
  },
);

test("Client: a request that is rejected before the stream throws its code and violations", async ({
  client,
}) => {
  const reading = textOf(client.ai.stream({ ...requestOf("Hello."), temperature: 3 }));
  const refused = { code: "VALIDATION_FAILED", violations: [{ field: "temperature" }] };
  await expect(reading).rejects.toMatchObject(refused);
});

test("Client: ends the request to the provider when the loop is left or the signal aborts", async ({
  client,
}) => {
  const [simulator] = app.providers;
  for (const leave of ["break", "abort"]) {
    const content = `case: silent-midway ${crypto.randomUUID()}`;
    const stop = new AbortController();
    const reading = async () => {
      for await (const _ of client.ai.stream(requestOf(content), { signal: stop.signal })) {
        if (leave === "break") return "left";
        stop.abort("stopped");
      }
    };
    if (leave === "break") expect(await reading()).toBe("left");
    else await expect(reading()).rejects.toBe("stopped");
    await until("the end of the request at the provider", () =>
      simulator?.requests.find(
        ({ body, closedAt }) => closedAt && JSON.stringify(body).includes(content),
      ),
    );
  }
});

test.each([
  ['data: {"chunk":"Hel"}\n\n', "NETWORK_ERROR"],
  ['data: {"chunk":"H\n\n', "UNEXPECTED_RESPONSE"],
])("Client: an interrupted stream throws: %j", async (body, code) => {
  const client = clientAt(app.url, { fetch: async () => new Response(body) });
  await expect(textOf(client.ai.stream(requestOf("Hello.")))).rejects.toMatchObject({ code });
});

test("Client: reads the complete reply if fetch does not support streams", async () => {
  const withoutStreams: typeof fetch = async (target, init) => {
    const response = await fetch(target, init);
    return Object.defineProperty(response, "body", { value: undefined });
  };
  const { client } = await signedInClient(app, { fetch: withoutStreams });
  expect(await textOf(client.ai.stream(requestOf("case: plain")))).toBe(REPLY);
});

test("Client: accepts chunks that are split at any byte, and any line ending", async () => {
  const body =
    'data: {"chunk":"Grü"}\n\n: comment\n\ndata:{"chunk":"ße 👍"}\r\n\r\ndata: [DONE]\r\n\r\n';
  const bytes = [...Buffer.from(body)].map((byte) => Uint8Array.of(byte));
  const fetchBytes = async () => new Response(ReadableStream.from(bytes));
  expect(
    await textOf(clientAt(app.url, { fetch: fetchBytes }).ai.stream(requestOf("Hello."))),
  ).toBe("Grüße 👍");
  expect(new GatehouseError("NETWORK_ERROR", "")).toBeInstanceOf(Error);
});

test("Client: a completion contains the reasoning, the text, the finish reason and the usage", async ({
  client,
}) => {
  app.clock.advance("16m"); // a new access token is fetched for it
  const request = {
    model: "provider-a/model-a-1",
    messages: [{ role: "user", content: "Hello." }],
  } as const;
  const pieces = await piecesIn(client.completions.stream(request));
  const text = pieces.map((piece) => (piece.kind === "text" ? piece.text : "")).join("");
  expect(text).toContain("couldn't agree more");
  expect(pieces.slice(-2)).toEqual([
    { kind: "finish", reason: "stop" },
    {
      kind: "usage",
      inputTokens: expect.any(Number),
      outputTokens: expect.any(Number),
      cost: expect.stringMatching(/^0\.\d+$/),
    },
  ]);
  const event = { choices: [{ delta: { reasoning_content: "Let me see." }, finish_reason: null }] };
  const body = `data: ${JSON.stringify(event)}\n\ndata: [DONE]\n\n`;
  const thinking = clientAt(app.url, { fetch: async () => new Response(body) });
  expect(await piecesIn(thinking.completions.stream(request))).toEqual([
    { kind: "reasoning", text: "Let me see." },
  ]);
});

test.for([
  ["case: bad-key", { code: "PROVIDER_ERROR" }],
  ["case: reset-midway", { code: "STREAM_ERROR", streamCode: "PROVIDER_ERROR" }],
  ["", { code: "VALIDATION_FAILED", violations: [{ field: "messages" }] }],
] as const)(
  "Client: a completion of '%s' throws the codes of the API",
  async ([content, failure], { client }) => {
    const request = {
      model: "provider-a/model-a-1",
      messages: [{ role: "user", content }],
    } as const;
    const reading = piecesIn(client.completions.stream(request));
    await expect(reading).rejects.toMatchObject(failure);
  },
);

test("Client: a completion of an unknown model throws NOT_FOUND, and one of a provider without a key PROVIDER_NOT_CONFIGURED", async ({
  client,
}) => {
  const messages = [{ role: "user", content: "Hello." }] as const;
  const reading = piecesIn(client.completions.stream({ model: "nobody/nothing", messages }));
  await expect(reading).rejects.toMatchObject({ code: "NOT_FOUND", status: 404 });
  const error = {
    message: "The AI provider provider-d is not configured: MISTRAL_API_KEY is missing.",
    code: "model_not_found",
  };
  const fetch = async () => Response.json({ error }, { status: 404 });
  const without = clientAt(app.url, { fetch }).completions.stream({
    model: "provider-d/a",
    messages,
  });
  await expect(piecesIn(without)).rejects.toMatchObject({ code: "PROVIDER_NOT_CONFIGURED" });
});
