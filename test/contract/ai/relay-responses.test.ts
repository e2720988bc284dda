import { test as base, describe, expect } from "vitest";
import { testApp } from "../../support/app.ts";
import { RELAYED_APIS } from "./relayed-apis.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());

describe("POST /v1/responses", () => {
  const { path, bodyOf } = RELAYED_APIS[1];

  test.for<[string, object]>([
    ["previous_response_id", { previous_response_id: "resp_1" }],
    ["conversation", { conversation: "conv_1" }],
    ["background", { background: true }],
    ["store", { store: true }],
    ["prompt", { prompt: { id: "pmpt_1" } }],
    ["prompt_cache_options.ttl", { prompt_cache_options: { ttl: "12h" } }],
    [
      "prompt_cache_options.comparison_response_id",
      { prompt_cache_options: { ttl: "30m", comparison_response_id: "resp_1" } },
    ],
    [
      "input[0].content[0].prompt_cache_breakpoint.ttl",
      {
        input: [
          {
            role: "user",
            content: [
              { type: "input_text", text: "a", prompt_cache_breakpoint: { ttl: "12h" } },
              { type: "input_text", text: "b", prompt_cache_breakpoint: { ttl: "30m" } },
            ],
          },
        ],
      },
    ],
    ["service_tier", { service_tier: "priority" }],
    ["service_tier", { service_tier: "flex" }],
    ["tools[0].type", { tools: [{ type: "web_search" }] }],
    ["tools[0].type", { tools: [{ type: "code_interpreter", container: { type: "auto" } }] }],
    ["tools[0].type", { tools: [{ type: "file_search", vector_store_ids: ["vs_1"] }] }],
    [
      "tools[0].type",
      { tools: [{ type: "mcp", server_label: "m", server_url: "https://x.test" }] },
    ],
    ["tools[0].type", { tools: [{ type: "computer_use_preview" }] }],
    [
      "tools[0].tools[0].type",
      {
        tools: [{ type: "namespace", name: "n", description: "", tools: [{ type: "web_search" }] }],
      },
    ],
    [
      "input[0].tools[0].type",
      { input: [{ type: "additional_tools", role: "developer", tools: [{ type: "mcp" }] }] },
    ],
    ["input[0].type", { input: [{ type: "item_reference", id: "msg_1" }] }],
    [
      "input[0].content[0].file_id",
      { input: [{ role: "user", content: [{ type: "input_file", file_id: "file_1" }] }] },
    ],
    [
      "input[0].output[0].file_id",
      {
        input: [
          {
            type: "function_call_output",
            call_id: "c",
            output: [{ type: "input_image", file_id: "file_1" }],
          },
        ],
      },
    ],
  ])("rejects %s", async ([field, fields], { account: { post } }) => {
    const { status, body } = await post(path, { ...bodyOf("case: plain"), ...fields });
    expect([status, body.error.param]).toEqual([400, field]);
    const [, reason = ""] = body.error.message.split(`${field} `);
    expect(reason).toMatch(/^is (?:not supported|supported only)/);
  });

  test("tools of the client are accepted in namespaces and in items", async ({
    account: { post },
  }) => {
    const tools = [
      {
        type: "namespace",
        name: "functions",
        description: "",
        tools: [
          { type: "function", name: "f", parameters: {}, strict: false },
          { type: "custom", name: "c", format: { type: "text" } },
        ],
      },
    ];
    const items = [
      { type: "additional_tools", role: "developer", tools },
      { role: "user", content: "case: plain" },
    ];
    const { status } = await post(path, { ...bodyOf("case: plain"), tools, input: items });
    expect(status).toBe(200);
  });

  test("store is false at the provider if the body does not set it", async ({
    account: { post },
  }) => {
    const mark = crypto.randomUUID();
    const { status } = await post(path, { model: "model-a-1", input: `case: plain ${mark}` });
    expect(status).toBe(200);
    const request = app.providers[0]?.requests.find(({ body }) =>
      JSON.stringify(body).includes(mark),
    );
    expect(request?.body).toMatchObject({ store: false });
  });
});
