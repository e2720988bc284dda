import Anthropic, { APIError as AnthropicError } from "@anthropic-ai/sdk";
import OpenAI, { APIError } from "openai";
import { describe, expect, test } from "vitest";
import { argumentsOf, CALLING, tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { PREFIX, REPLY } from "../../../scripts/simulators/script.ts";
import { createKey } from "../../support/api-keys.ts";
import { testApp } from "../../support/app.ts";
import { randomAddress } from "../../support/http/client.ts";
import { until } from "../../support/until.ts";

/**
 * The clients of Anthropic and OpenAI, unchanged, at the relays: each gets a base URL and a key,
 * and nothing else. Requests are counted by a `fetch` that passes them on.
 */
const app = await testApp();
const plain = `case: plain ${crypto.randomUUID()}`;
const PIXEL = "iVBORw0KGgo=";

async function connect(given?: string) {
  const key = given ?? (await createKey(await app.signIn())).key;
  const sent = { count: 0 };
  const address = randomAddress();
  const counted: typeof fetch = (input, init) => {
    sent.count++;
    const headers = new Headers(init?.headers);
    headers.set("x-forwarded-for", address);
    return fetch(input, { ...init, headers });
  };
  return { key, fetch: counted, sent };
}

async function anthropic(given?: string) {
  const { key, fetch, sent } = await connect(given);
  return { client: new Anthropic({ apiKey: key, baseURL: app.url, fetch }), sent, key };
}
async function openai(given?: string) {
  const { key, fetch, sent } = await connect(given);
  return { client: new OpenAI({ apiKey: key, baseURL: `${app.url}/v1`, fetch }), sent, key };
}

const MESSAGE = { model: "model-b-1", max_tokens: 1_024 };
const asked = (content: Anthropic.MessageParam["content"]) => [{ role: "user" as const, content }];
const LOOK_UP: Anthropic.Tool = {
  name: "look_up",
  description: "Looks up the weather.",
  input_schema: { type: "object", properties: { city: { type: "string" } } },
};
const thrownBy = async (promise: PromiseLike<unknown>) => {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return undefined;
};

describe("POST /v1/messages called by @anthropic-ai/sdk", () => {
  test("a complete reply has its usage", async () => {
    const { client, sent } = await anthropic();
    const message = await client.messages.create({ ...MESSAGE, messages: asked(plain) });
    expect(message.content).toEqual([{ type: "text", text: REPLY }]);
    expect(message.stop_reason).toBe("end_turn");
    const { input_tokens, cache_read_input_tokens, output_tokens } = message.usage;
    expect(input_tokens + (cache_read_input_tokens ?? 0)).toBe(tokensIn(plain));
    expect(output_tokens).toBe(tokensIn(REPLY));
    expect(sent.count).toBe(1);
  });

  test("a stream has its usage", async () => {
    const { client } = await anthropic();
    const stream = client.messages.stream({ ...MESSAGE, messages: asked(plain) });
    const message = await stream.finalMessage();
    expect(await stream.finalText()).toBe(REPLY);
    expect(message.usage.output_tokens).toBe(tokensIn(REPLY));
  });

  test("an access token is accepted instead of a key, also as authToken", async () => {
    const { accessToken } = await app.signIn();
    const client = new Anthropic({ authToken: accessToken, apiKey: null, baseURL: app.url });
    const { content } = await client.messages.create({ ...MESSAGE, messages: asked(plain) });
    expect(content).toMatchObject([{ text: REPLY }]);
  });

  test.each([true, false])(
    "thinking and two parallel tool calls, and their results with the signed thinking (stream: %s)",
    async (isStream) => {
      const { client } = await anthropic();
      const request = {
        ...MESSAGE,
        thinking: { type: "adaptive" as const },
        tools: [LOOK_UP],
        messages: asked(`case: calling ${crypto.randomUUID()}`),
      };
      const first = isStream
        ? await client.messages.stream(request).finalMessage()
        : await client.messages.create(request);
      expect(first.stop_reason).toBe("tool_use");
      const calls = first.content.filter((block) => block.type === "tool_use");
      expect(calls.map(({ name, input }) => [name, input])).toEqual(
        CALLING.calls.map((call) => [call.name, JSON.parse(argumentsOf(call))]),
      );
      expect(first.content[0]).toMatchObject({ type: "thinking", signature: "EqQB" });
      const results = calls.map(({ id }, index) => ({
        type: "tool_result" as const,
        tool_use_id: id,
        content: [{ type: "text" as const, text: index === 1 ? plain : "12 °C" }],
      }));
      const second = await client.messages.create({
        ...request,
        messages: [
          ...request.messages,
          { role: "assistant", content: first.content },
          { role: "user", content: results },
        ],
      });
      expect(second.content).toMatchObject([{ type: "text", text: REPLY }]);
    },
  );

  test("an image, cache markers, a system text in parts, and metadata", async () => {
    const { client } = await anthropic();
    const message = await client.messages.create({
      ...MESSAGE,
      system: [
        { type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "1h" } },
      ],
      metadata: { user_id: "u-1" },
      messages: asked([
        { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } },
        { type: "text", text: plain, cache_control: { type: "ephemeral" } },
      ]),
    });
    expect(message.content).toMatchObject([{ text: REPLY }]);
  });

  test("countTokens returns the number of tokens", async () => {
    const { client } = await anthropic();
    const { input_tokens } = await client.messages.countTokens({
      ...{ model: MESSAGE.model, messages: asked(plain), tools: [LOOK_UP] },
    });
    expect(input_tokens).toBe(tokensIn(plain));
  });

  test("a failure in the middle of a stream is an error", async () => {
    const { client } = await anthropic();
    for (const name of ["reset-midway", "error-event", "half-an-event"]) {
      const messages = asked(`case: ${name} ${crypto.randomUUID()}`);
      const stream = client.messages.stream({ ...MESSAGE, messages });
      let text = "";
      stream.on("text", (piece) => {
        text += piece;
      });
      const error = await thrownBy(stream.finalMessage());
      expect(error, name).toBeInstanceOf(AnthropicError);
      expect((error as AnthropicError).type).toMatch(/^(api|overloaded)_error$/);
      expect(text).toBe(PREFIX);
    }
  });

  test("an abort ends the call to the provider", async () => {
    const { client } = await anthropic();
    const content = `case: silent-midway ${crypto.randomUUID()}`;
    const stream = client.messages.stream({ ...MESSAGE, messages: asked(content) });
    const reply = thrownBy(stream.finalMessage());
    const request = () =>
      app.providers[1]?.requests.find(({ body }) => JSON.stringify(body).includes(content));
    await until("the request", () => request() !== undefined);
    stream.abort();
    await until("its end", () => request()?.closedAt !== undefined);
    expect(await reply).toBeInstanceOf(Anthropic.APIUserAbortError);
  });

  test("errors have the client's classes, and are not repeated in vain", async () => {
    const { client, sent, key } = await anthropic();
    const ask = (fields: object, by = client) =>
      thrownBy(by.messages.create({ ...MESSAGE, messages: asked(plain), ...fields }));
    expect(await ask({ model: "nobody" })).toBeInstanceOf(Anthropic.NotFoundError);
    expect(await ask({ container: "c_1" })).toBeInstanceOf(Anthropic.BadRequestError);
    expect(await ask({ messages: asked("case: invalid") })).toBeInstanceOf(
      Anthropic.BadRequestError,
    );
    expect(sent.count).toBe(3);
    const stranger = await anthropic(`${key.slice(0, -1)}${key.endsWith("0") ? 1 : 0}`);
    expect(await ask({}, stranger.client)).toBeInstanceOf(Anthropic.AuthenticationError);
    expect(stranger.sent.count).toBe(1);
    const limited = await thrownBy(
      client.messages.create(
        { ...MESSAGE, messages: asked("case: rate-limited") },
        { maxRetries: 0 },
      ),
    );
    expect(limited).toBeInstanceOf(Anthropic.RateLimitError);
  });

  test("a rate limit is 429 with the time to wait", async () => {
    const { client } = await anthropic();
    let error: unknown;
    const count = { model: MESSAGE.model, messages: asked("Hello!") };
    for (let i = 0; i < 320 && error === undefined; i++)
      error = await thrownBy(client.messages.countTokens(count, { maxRetries: 0 }));
    expect(error).toBeInstanceOf(Anthropic.RateLimitError);
    expect(Number((error as AnthropicError).headers?.get("retry-after"))).toBeGreaterThan(0);
  });
});

const RESPONSE = { model: "model-a-1" };
const FUNCTION: OpenAI.Responses.FunctionTool = {
  type: "function",
  name: "look_up",
  parameters: { type: "object", properties: { city: { type: "string" } } },
  strict: false,
};

describe("POST /v1/responses called by openai", () => {
  test("a complete reply has its usage", async () => {
    const { client, sent } = await openai();
    const response = await client.responses.create({ ...RESPONSE, input: plain });
    expect([response.status, response.output_text]).toEqual(["completed", REPLY]);
    expect(response.usage).toMatchObject({
      input_tokens: tokensIn(plain),
      output_tokens: tokensIn(REPLY),
    });
    expect(sent.count).toBe(1);
  });

  test("a stream has its usage", async () => {
    const { client } = await openai();
    let text = "";
    const stream = client.responses
      .stream({ ...RESPONSE, input: plain })
      .on("response.output_text.delta", ({ delta }) => {
        text += delta;
      });
    const response = await stream.finalResponse();
    expect([text, response.output_text]).toEqual([REPLY, REPLY]);
    expect(response.usage?.output_tokens).toBe(tokensIn(REPLY));
  });

  test.each([true, false])(
    "two parallel function calls, and their outputs with the encrypted reasoning (stream: %s)",
    async (isStream) => {
      const { client } = await openai();
      const input: OpenAI.Responses.ResponseInput = [
        { role: "user", content: `case: calling ${crypto.randomUUID()}` },
      ];
      const request = {
        ...RESPONSE,
        input,
        tools: [FUNCTION],
        include: ["reasoning.encrypted_content" as const],
      };
      const first = isStream
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create(request);
      const output = first.output as OpenAI.Responses.ResponseOutputItem[];
      const calls = output.filter((item) => item.type === "function_call");
      expect(calls.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual(
        CALLING.calls.map((call) => [call.name, JSON.parse(argumentsOf(call))]),
      );
      const outputs = calls.map(({ call_id }, index) => ({
        type: "function_call_output" as const,
        call_id,
        output: index === 1 ? plain : "12 °C",
      }));
      const second = await client.responses.create({
        ...request,
        input: [...input, ...(first.output as OpenAI.Responses.ResponseInputItem[]), ...outputs],
      });
      expect(second.output_text).toBe(REPLY);
    },
  );

  test("an image is accepted", async () => {
    const { client } = await openai();
    const response = await client.responses.create({
      ...RESPONSE,
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: plain },
            { type: "input_image", image_url: `data:image/png;base64,${PIXEL}`, detail: "low" },
          ],
        },
      ],
    });
    expect(response.output_text).toBe(REPLY);
  });

  test("a failure in the middle of a stream is an error", async () => {
    const { client } = await openai();
    for (const name of ["reset-midway", "error-event", "half-an-event"]) {
      const input = `case: ${name} ${crypto.randomUUID()}`;
      let text = "";
      const stream = await client.responses.create({ ...RESPONSE, input, stream: true });
      const error = await thrownBy(
        (async () => {
          for await (const event of stream)
            if (event.type === "response.output_text.delta") text += event.delta;
        })(),
      );
      expect(error, name).toBeInstanceOf(APIError);
      expect((error as APIError).code).toMatch(/^provider_(error|overloaded)$/);
      expect(text).toBe(PREFIX);
      const again = client.responses.stream({ ...RESPONSE, input });
      expect(await thrownBy(again.finalResponse())).toBeInstanceOf(Error);
    }
  });

  test("an abort ends the call to the provider", async () => {
    const { client } = await openai();
    const input = `case: silent-midway ${crypto.randomUUID()}`;
    const stream = client.responses.stream({ ...RESPONSE, input });
    const reply = thrownBy(stream.finalResponse());
    const request = () =>
      app.providers[0]?.requests.find(({ body }) => JSON.stringify(body).includes(input));
    await until("the request", () => request() !== undefined);
    stream.abort();
    await until("its end", () => request()?.closedAt !== undefined);
    expect(await reply).toBeInstanceOf(OpenAI.APIUserAbortError);
  });

  test("errors have the client's classes, with code and param, and are not repeated in vain", async () => {
    const { client, sent } = await openai();
    const ask = (fields: object, by = client) =>
      thrownBy(by.responses.create({ ...RESPONSE, input: plain, ...fields }, { maxRetries: 2 }));
    expect(await ask({ model: "nobody" })).toBeInstanceOf(OpenAI.NotFoundError);
    expect(await ask({ store: true })).toMatchObject({ status: 400, param: "store" });
    expect(await ask({ previous_response_id: "resp_1" })).toMatchObject({
      ...{ status: 400, code: "unsupported_value", param: "previous_response_id" },
    });
    expect(sent.count).toBe(3);
    const stranger = await openai("sk-gate-unknown");
    expect(await ask({}, stranger.client)).toBeInstanceOf(OpenAI.AuthenticationError);
    const limited = await thrownBy(
      client.responses.create({ ...RESPONSE, input: "case: rate-limited" }, { maxRetries: 0 }),
    );
    expect(limited).toBeInstanceOf(OpenAI.RateLimitError);
  });
});
