import { test as base, describe, expect } from "vitest";
import { argumentsOf, CALLING } from "../../../scripts/simulators/dialect-encoder.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { PROVIDERS } from "../../support/ai/calls.ts";
import {
  type CompletionInit,
  completionOf,
  type ReadCompletion,
  readCompletion,
  textMessage,
} from "../../support/ai/completions.ts";
import { testApp } from "../../support/app.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());
type Account = Awaited<ReturnType<typeof app.signIn>>;

const PARAMETERS = { type: "object", properties: { city: { type: "string" } } };
const LOOK_UP = {
  name: "look_up",
  description: "Looks up the weather.",
  parametersJson: JSON.stringify(PARAMETERS),
  strict: true,
};
const SCHEMA = { type: "object", properties: { warm: { type: "boolean" } } };
const FORMAT = {
  type: "json_schema",
  name: "answer",
  schemaJson: JSON.stringify(SCHEMA),
  strict: true,
};
const image = (value: { mediaType?: string; data?: string; url?: string; detail?: string }) => ({
  part: { case: "image" as const, value },
});
const PNG = { mediaType: "image/png", data: "iVBORw0KGgo=" };

/** The body that the provider got for a message, which has its own text. */
function bodyWith(marker: string): Record<string, unknown> {
  const requests = app.providers.flatMap(({ requests: received }) => received);
  const found = requests.findLast(({ body }) => JSON.stringify(body).includes(marker));
  return found?.body as Record<string, unknown>;
}

/** Sends a request whose first message says what its reply is, and returns the body upstream. */
async function sent(account: Account, request: CompletionInit) {
  const marker = crypto.randomUUID();
  const messages = [textMessage("system", marker), ...(request.messages ?? [])];
  let ignored: string | null = null;
  const onHeader = (header: Headers) => {
    ignored = header.get("x-ai-ignored");
  };
  const { headers } = account;
  const reply = await readCompletion(app, { ...request, messages }, { headers, onHeader });
  const body = JSON.parse(JSON.stringify(bodyWith(marker)).replaceAll(marker, "SYSTEM"));
  return { body, ignored, reply };
}

/** The conversation of a reply that calls tools, with their results and a last word. */
const answered = (model: string, { calls, text }: ReadCompletion): CompletionInit => ({
  model,
  tools: [LOOK_UP],
  messages: [
    textMessage("user", "case: calling"),
    { ...textMessage("assistant", text), toolCalls: calls },
    ...calls.map(({ id }, index) => ({
      ...textMessage("tool", index === 0 ? "12 °C" : "case: plain"),
      toolCallId: id,
    })),
  ],
});

const [first, second] = CALLING.calls.map((call) => JSON.parse(argumentsOf(call)));
const texts = [first, second].map((each) => JSON.stringify(each));

/** The messages of the second round, by provider, with the ids that each takes. */
const SECOND_ROUNDS: Record<string, (ids: string[]) => unknown> = {
  "provider-a": ([a, b]) => [
    { role: "developer", content: "SYSTEM" },
    { role: "user", content: "case: calling" },
    {
      role: "assistant",
      content: CALLING.text,
      tool_calls: [
        { id: a, type: "function", function: { name: "look_up", arguments: expect.any(String) } },
        { id: b, type: "function", function: { name: "look_up", arguments: texts[1] } },
      ],
    },
    { role: "tool", tool_call_id: a, content: "12 °C" },
    { role: "tool", tool_call_id: b, content: "case: plain" },
  ],
  "provider-b": ([a, b]) => [
    { role: "user", content: "case: calling" },
    {
      role: "assistant",
      content: [
        { type: "text", text: CALLING.text },
        { type: "tool_use", id: a, name: "look_up", input: first },
        { type: "tool_use", id: b, name: "look_up", input: second },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: a, content: "12 °C" },
        { type: "tool_result", tool_use_id: b, content: "case: plain" },
      ],
    },
  ],
  "provider-c": ([a, b]) => [
    { role: "user", parts: [{ text: "case: calling" }] },
    {
      role: "model",
      parts: [
        { text: CALLING.text },
        {
          functionCall: { id: a?.split(".")[0], name: "look_up", args: first },
          thoughtSignature: "CiQ+/w==",
        },
        { functionCall: { id: b, name: "look_up", args: second } },
      ],
    },
    {
      role: "user",
      parts: [
        {
          functionResponse: {
            id: a?.split(".")[0],
            name: "look_up",
            response: { result: "12 °C" },
          },
        },
        { functionResponse: { id: b, name: "look_up", response: { result: "case: plain" } } },
      ],
    },
  ],
  "provider-d": () => [
    { role: "system", content: "SYSTEM" },
    { role: "user", content: "case: calling" },
    {
      role: "assistant",
      content: CALLING.text,
      tool_calls: [0, 1].map((index) => ({
        id: expect.stringMatching(/^[A-Za-z0-9]{9}$/),
        type: "function",
        function: { name: "look_up", arguments: index ? texts[1] : expect.any(String) },
      })),
    },
    {
      role: "tool",
      tool_call_id: expect.stringMatching(/^[A-Za-z0-9]{9}$/),
      name: "look_up",
      content: "12 °C",
    },
    {
      role: "tool",
      tool_call_id: expect.stringMatching(/^[A-Za-z0-9]{9}$/),
      name: "look_up",
      content: "case: plain",
    },
  ],
};

describe.each(PROVIDERS)("Complete with tools: %s", (provider) => {
  const model = `model-${provider.at(-1)}-1`;
  const calling = { ...completionOf("case: calling", model), tools: [LOOK_UP] };

  test.for([
    { stream: true, name: "calling" },
    { stream: true, name: "calling-bytes" },
    { stream: false, name: "calling" },
  ])(
    "replies with reasoning, text, two tool calls and the full usage ($name, stream: $stream)",
    async ({ stream, name }, { account }) => {
      const request = { ...calling, ...completionOf(`case: ${name}`, model), stream };
      const reply = await readCompletion(app, request, account);
      expect(reply.kinds).toEqual(["started", "reasoning", "text", "toolCall", "finished"]);
      expect(reply.reasoning).toBe(CALLING.thoughts.join(""));
      expect(reply.text).toBe(CALLING.text);
      expect(reply.calls.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual([
        ["look_up", first],
        ["look_up", second],
      ]);
      expect(new Set(reply.calls.map(({ id }) => id)).size).toBe(2);
      const { input, output, cached, reasoning } = CALLING.usage;
      expect(reply.finished).toMatchObject({
        finishReason: "tool_calls",
        usage: {
          inputTokens: input,
          outputTokens: output,
          cachedInputTokens: cached,
          reasoningTokens: reasoning,
        },
      });
    },
  );

  test("accepts the results of both calls, with the data of the calls that the provider needs", async ({
    account,
  }) => {
    const round = await readCompletion(app, calling, account);
    const { body, reply } = await sent(account, answered(model, round));
    expect(reply).toMatchObject({ text: REPLY, finished: { finishReason: "stop" } });
    const ids = round.calls.map(({ id }) => id);
    expect(body.messages ?? body.contents).toEqual(SECOND_ROUNDS[provider]?.(ids));
  });

  test("accepts calls of other providers, whose ids it may change", async ({ account }) => {
    const call = { name: "look_up", arguments: '{"city":"Bern"}', thoughtSignature: "CiQ+/w==" };
    for (const id of ["functions.look_up:0", `call_${"x".repeat(60)}`, "call_abcdefghi.CiQ-_w"]) {
      const round = { calls: [{ ...call, id }], text: "" } as unknown as ReadCompletion;
      const request = answered(model, round);
      const [user, assistant, result] = request.messages ?? [];
      const messages = [user, assistant, { ...result, ...textMessage("tool", "case: plain") }];
      const { reply } = await sent(account, { ...request, messages } as CompletionInit);
      expect(reply.text, id).toBe(REPLY);
    }
  });

  test("fails if the model calls a tool that was not offered", async ({ account }) => {
    const request = completionOf("case: tool-call", model);
    await expect(readCompletion(app, request, account)).rejects.toThrow("unreadable reply");
  });
});

/** What each dialect gets of the same options, apart from model and messages. */
const OPTIONS: Record<string, { body: object; ignored: string | null }> = {
  "provider-a": {
    ignored: "temperature, top_p, frequency_penalty",
    body: {
      max_completion_tokens: 100,
      reasoning_effort: "low",
      stop: ["END"],
      seed: 7,
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", schema: SCHEMA, strict: true },
      },
      tools: [
        {
          type: "function",
          function: {
            name: "look_up",
            description: "Looks up the weather.",
            parameters: PARAMETERS,
            strict: true,
          },
        },
      ],
      tool_choice: "auto",
    },
  },
  "provider-b": {
    ignored: "temperature, top_p, frequency_penalty, seed",
    body: {
      max_tokens: 100,
      stream: false,
      system: "SYSTEM",
      stop_sequences: ["END"],
      thinking: { type: "adaptive" },
      output_config: { effort: "low", format: { type: "json_schema", schema: SCHEMA } },
      tools: [
        {
          name: "look_up",
          description: "Looks up the weather.",
          input_schema: PARAMETERS,
          strict: true,
        },
      ],
      tool_choice: { type: "auto" },
    },
  },
  "provider-c": {
    ignored: "temperature, top_p, frequency_penalty, strict",
    body: {
      systemInstruction: { parts: [{ text: "SYSTEM" }] },
      generationConfig: {
        maxOutputTokens: 100,
        stopSequences: ["END"],
        seed: 7,
        responseMimeType: "application/json",
        responseJsonSchema: SCHEMA,
        thinkingConfig: { thinkingLevel: "LOW", includeThoughts: true },
      },
      tools: [
        {
          functionDeclarations: [
            {
              name: "look_up",
              description: "Looks up the weather.",
              parametersJsonSchema: PARAMETERS,
            },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: "AUTO" } },
    },
  },
  "provider-d": {
    ignored: "reasoning_effort",
    body: {
      max_tokens: 100,
      temperature: 1,
      top_p: 0.5,
      frequency_penalty: 1,
      stop: ["END"],
      random_seed: 7,
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", schema: SCHEMA, strict: true },
      },
      tools: [
        {
          type: "function",
          function: {
            name: "look_up",
            description: "Looks up the weather.",
            parameters: PARAMETERS,
            strict: true,
          },
        },
      ],
      tool_choice: "auto",
    },
  },
};

test.for(PROVIDERS)(
  "Complete: %s gets every option in its own format, and unsupported ones are listed",
  async (provider, { account }) => {
    const { body, ignored } = await sent(account, {
      ...completionOf("case: plain", `model-${provider.at(-1)}-1`),
      maxTokens: 100,
      temperature: 1,
      topP: 0.5,
      frequencyPenalty: 1,
      stop: ["END"],
      seed: 7n,
      reasoningEffort: "low",
      responseFormat: FORMAT,
      tools: [LOOK_UP],
      toolChoice: { mode: "auto" },
    });
    const { model: _model, messages: _messages, contents: _contents, ...options } = body;
    expect({ body: options, ignored }).toEqual(OPTIONS[provider]);
  },
);

/** The choice of tools, and how each dialect says it. */
const CHOICES = [
  ["none", ["none", { type: "none" }, { mode: "NONE" }]],
  ["required", ["required", { type: "any" }, { mode: "ANY" }]],
  [
    "function",
    [
      { type: "function", function: { name: "look_up" } },
      { type: "tool", name: "look_up" },
      { mode: "ANY", allowedFunctionNames: ["look_up"] },
    ],
  ],
] as const;
test.for(CHOICES)(
  "Complete: the tool choice %s reaches every dialect",
  async ([mode, forms], { account }) => {
    const [openai, anthropic, google] = forms;
    const name = mode === "function" ? "look_up" : "";
    for (const [model, expected] of [
      ["model-a-1", { tool_choice: openai }],
      ["model-b-1", { tool_choice: anthropic }],
      ["model-c-1", { toolConfig: { functionCallingConfig: google } }],
      ["model-d-1", { tool_choice: openai }],
    ] as const) {
      const plain = completionOf("case: plain", model);
      const { body } = await sent(account, {
        ...plain,
        tools: [LOOK_UP],
        toolChoice: { mode, name },
      });
      expect(body).toMatchObject(expected);
    }
  },
);

test("Complete: one tool call at a time is requested if the dialect supports it, and rejected for Google's", async ({
  account,
}) => {
  const single = { tools: [LOOK_UP], parallelToolCalls: false };
  for (const [model, expected] of [
    ["model-a-1", { parallel_tool_calls: false }],
    ["model-b-1", { tool_choice: { type: "auto", disable_parallel_tool_use: true } }],
    ["model-d-1", { parallel_tool_calls: false }],
  ] as const)
    expect(
      (await sent(account, { ...completionOf("case: plain", model), ...single })).body,
    ).toMatchObject(expected);
  const refused = readCompletion(
    app,
    { ...completionOf("Hello.", "model-c-1"), ...single },
    account,
  );
  await expect(refused).rejects.toThrow("parallelToolCalls must be true for this model");
});

/** An image of a request, and the parts that each dialect gets. */
const IMAGES = [
  [
    PNG,
    "model-a-1",
    { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
  ],
  [
    { url: "https://example.org/a.png", detail: "low" },
    "model-a-1",
    { type: "image_url", image_url: { url: "https://example.org/a.png", detail: "low" } },
  ],
  [
    PNG,
    "model-b-1",
    { type: "image", source: { type: "base64", media_type: "image/png", data: PNG.data } },
  ],
  [
    { url: "https://example.org/a.png" },
    "model-b-1",
    { type: "image", source: { type: "url", url: "https://example.org/a.png" } },
  ],
  [PNG, "model-c-1", { inlineData: { mimeType: "image/png", data: PNG.data } }],
  [PNG, "model-d-1", { type: "image_url", image_url: "data:image/png;base64,iVBORw0KGgo=" }],
] as const;
test.for(IMAGES)(
  "Complete: an image %j reaches %s in its own format",
  async ([given, model, part], { account }) => {
    const message = textMessage("user", "case: plain");
    const messages = [{ ...message, parts: [image(given), ...message.parts] }];
    const { body, reply } = await sent(account, { model, messages });
    expect(reply.text).toBe(REPLY);
    const { content, parts } = (body.messages ?? body.contents).at(-1);
    expect((content ?? parts)[0]).toEqual(part);
  },
);

test("Complete: fields that would change the meaning of the reply are rejected with an explanation", async ({
  account,
}) => {
  const message = textMessage("user", "Hello.");
  const byUrl = { ...message, parts: [image({ url: "https://example.org/a.png" })] };
  const refusals: [CompletionInit, string][] = [
    [{ model: "model-c-1", messages: [byUrl] }, "messages[0].parts[0].image.url is not supported"],
    [
      { ...completionOf("Hello.", "model-b-1"), responseFormat: { type: "json_object" } },
      "responseFormat must be json_schema instead of json_object for this model",
    ],
  ];
  for (const [request, words] of refusals)
    await expect(readCompletion(app, request, account)).rejects.toThrow(words);
});

test("Complete: Anthropic's models do not reason about results of tools, and the effort is listed as ignored", async ({
  account,
}) => {
  const model = "model-b-1";
  const calling = { ...completionOf("case: calling", model), tools: [LOOK_UP] };
  const round = await readCompletion(app, calling, account);
  const request = { ...answered(model, round), reasoningEffort: "high" };
  const { body, ignored } = await sent(account, request);
  expect(body).not.toHaveProperty("thinking");
  expect(ignored).toBe("reasoning_effort");
});
