import { test as base, describe, expect } from "vitest";
import { createKey } from "../../support/api-keys.ts";
import { testApp } from "../../support/app.ts";
import { bearer, sendHttp } from "../../support/http/client.ts";
import { RELAYED_APIS } from "./relayed-apis.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());

describe("POST /v1/messages", () => {
  const [{ path, bodyOf }] = RELAYED_APIS;
  const refused = (fields: object) => ({ ...bodyOf("case: plain"), ...fields });
  const FILE = { type: "file", file_id: "file_1" };

  test.for<[string, object]>([
    ["container", { container: "c_1" }],
    ["mcp_servers", { mcp_servers: [{ type: "url", url: "https://example.com", name: "m" }] }],
    ["fallbacks", { fallbacks: "default" }],
    ["service_tier", { service_tier: "priority" }],
    ["speed", { speed: "fast" }],
    ["tools[0].type", { tools: [{ type: "web_search_20250305", name: "web_search" }] }],
    ["tools[0].type", { tools: [{ type: "code_execution_20250825", name: "code_execution" }] }],
    ["tools[0].type", { tools: [{ type: "bash_20250124", name: "bash" }] }],
    ["tools[0].type", { tools: [{ type: "computer_20250124", name: "computer" }] }],
    [
      "messages[0].content[0].source",
      { messages: [{ role: "user", content: [{ type: "document", source: FILE }] }] },
    ],
    [
      "messages[0].content[0].content[0].source",
      {
        messages: [
          {
            role: "user",
            content: [
              { type: "tool_result", tool_use_id: "t", content: [{ type: "image", source: FILE }] },
            ],
          },
        ],
      },
    ],
    [
      "messages[0].content[0].type",
      { messages: [{ role: "user", content: [{ type: "container_upload", file_id: "file_1" }] }] },
    ],
  ])("rejects %s", async ([field, fields], { account: { post } }) => {
    const { status, body } = await post(path, refused(fields));
    expect([status, body.type, body.error.type]).toEqual([400, "error", "invalid_request_error"]);
    const [, reason = ""] = body.error.message.split(`${field} `);
    expect(reason).toMatch(/^is (?:not supported|supported only)/);
    expect((await post(`${path}/count_tokens`, refused(fields))).status).toBe(400);
  });

  test("a tool of the client accepts any argument", async ({ account: { post } }) => {
    const input = { file_id: "file_1", container: "c_1", type: "file" };
    const { status } = await post(
      path,
      refused({
        tools: [{ name: "read", input_schema: { type: "object", properties: { file_id: {} } } }],
        messages: [
          { role: "user", content: "Read it." },
          { role: "assistant", content: [{ type: "tool_use", id: "t_1", name: "read", input }] },
          {
            role: "user",
            content: [{ type: "tool_result", tool_use_id: "t_1", content: "case: plain" }],
          },
        ],
      }),
    );
    expect(status).toBe(200);
  });

  test("a result may refer to tools of the request that are loaded on demand", async ({
    account,
  }) => {
    const found = [{ type: "tool_reference", tool_name: "read" }];
    const { status } = await sendHttp(
      app.url,
      "POST",
      path,
      {
        ...bodyOf("case: plain"),
        tools: [
          { name: "find_tool", input_schema: { type: "object" } },
          { name: "read", input_schema: { type: "object" }, defer_loading: true },
        ],
        messages: [
          { role: "user", content: "Read it." },
          {
            role: "assistant",
            content: [{ type: "tool_use", id: "t_1", name: "find_tool", input: {} }],
          },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "t_1", content: found }] },
        ],
      },
      { ...bearer(account.accessToken), "anthropic-beta": "advanced-tool-use-2025-11-20" },
    );
    expect(status).toBe(200);
  });

  test("the key may be in x-api-key, which is used only without Authorization", async ({
    account,
  }) => {
    const { key } = await createKey(account);
    const ask = (
      headers: Record<string, string>,
      at: string = path,
      body: object = bodyOf("case: plain"),
    ) =>
      fetch(app.url + at, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
    expect((await ask({ "x-api-key": key })).status).toBe(200);
    expect((await ask({ "x-api-key": key }, `${path}/count_tokens`)).status).toBe(200);
    expect((await ask({ "x-api-key": "sk-gate-wrong" })).status).toBe(401);
    expect((await ask({ "x-api-key": key, authorization: "Bearer sk-gate-wrong" })).status).toBe(
      401,
    );
    const chat = { model: "model-b-1", messages: [{ role: "user", content: "case: plain" }] };
    expect((await ask({ "x-api-key": key }, "/v1/chat/completions", chat)).status).toBe(401);
  });

  test("values of anthropic-beta in the catalogue are passed on, and others are listed", async ({
    account,
  }) => {
    const mark = crypto.randomUUID();
    const response = await fetch(app.url + path, {
      method: "POST",
      headers: {
        ...bearer(account.accessToken),
        "content-type": "application/json",
        "anthropic-version": "2026-10-21",
        "anthropic-beta": "context-1m-2025-08-07, interleaved-thinking-2025-05-14",
      },
      body: JSON.stringify(bodyOf(`case: plain ${mark}`)),
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-ai-ignored")).toBe("anthropic-beta.context-1m-2025-08-07");
    const request = app.providers[1]?.requests.find(({ body }) =>
      JSON.stringify(body).includes(mark),
    );
    expect(request?.headers).toMatchObject({
      "anthropic-beta": "interleaved-thinking-2025-05-14",
      "anthropic-version": "2026-10-21",
    });
    expect(request?.headers["x-api-key"]).toBeUndefined();
  });

  test("POST /v1/messages/count_tokens: lists the values of anthropic-beta that it omits", async ({
    account,
  }) => {
    const { messages } = bodyOf("Hello!");
    const betas = "context-1m-2025-08-07,interleaved-thinking-2025-05-14";
    const count = (given: Record<string, string>) =>
      sendHttp(
        app.url,
        "POST",
        `${path}/count_tokens`,
        { model: "model-b-1", messages },
        { ...bearer(account.accessToken), ...given },
      );
    const { status, headers } = await count({ "anthropic-beta": betas });
    expect([status, headers.get("x-ai-ignored")]).toEqual([
      ...[200, "anthropic-beta.context-1m-2025-08-07"],
    ]);
    expect((await count({})).headers.get("x-ai-ignored")).toBeNull();
  });

  test("POST /v1/messages/count_tokens: returns the count, which is not recorded as usage", async ({
    account: { user, post, get },
  }) => {
    const { messages } = bodyOf("Hello, how are you?");
    const counted = await post(`${path}/count_tokens`, { model: "provider-b/model-b-1", messages });
    expect(counted).toMatchObject({ status: 200, body: { input_tokens: 5 } });
    expect(counted.headers.get("ratelimit-remaining")).toBe("299");
    expect((await post(`${path}/count_tokens`, { model: "nobody", messages })).status).toBe(404);
    expect((await get("/user/usage")).body).toEqual([]);
    expect(await app.sql("select 1 from ai_usage where user_id = ?", [user.id])).toEqual([]);
  });

  test("errors of the port have the format of the API, on every path below", async ({
    account,
  }) => {
    const unknown = await account.get("/v1/messages/batches");
    expect(unknown).toMatchObject({
      status: 404,
      body: { type: "error", error: { type: "not_found_error" } },
    });
    const anonymous = await app.httpClient().post(path, bodyOf("Hello!"));
    expect(anonymous).toMatchObject({
      ...{ status: 401, body: { type: "error", error: { type: "authentication_error" } } },
    });
  });
});
