import { Code } from "@connectrpc/connect";
import { test as base, expect } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  type CompletionInit,
  completionOf,
  readCompletion,
  textMessage,
} from "../../support/ai/completions.ts";
import { startSuiteApp, testApp } from "../../support/app.ts";
import { bearer } from "../../support/http/client.ts";
import { errorOf } from "../../support/http/stub-services.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());
const unconfigured = await startSuiteApp({
  mode: app.mode === "replicas" ? "servers" : app.mode,
  env: { MISTRAL_API_KEY: "" },
});

const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
const calling = (calls: { id: string; arguments?: string }[]) => ({
  ...textMessage("assistant", ""),
  toolCalls: calls.map((call) => ({ name: "look_up", arguments: "{}", ...call })),
});
const result = (toolCallId: string) => ({ ...textMessage("tool", "12 °C"), toolCallId });
const image = (value: object) => ({ part: { case: "image" as const, value } });
const user = textMessage("user", "Hello.");
const PNG = { mediaType: "image/png", data: "iVBORw0KGgo=" };

/** A conversation of the given messages. */
const talk = (...messages: NonNullable<CompletionInit["messages"]>): CompletionInit => ({
  messages,
});

/** What is wrong with a request, and the fields that are named. */
const WRONG: [what: string, request: CompletionInit, fields: string][] = [
  ["no message", talk(), "messages"],
  ["no message of the user", talk(textMessage("assistant", "Hello.")), "messages"],
  ["a blank message", talk(textMessage("user", " ")), "messages"],
  ["an unknown role", talk(user, textMessage("robot", "Hello.")), "messages[1].role"],
  ["an empty part", talk(user, { role: "user", parts: [{}] }), "messages[1].parts[0]"],
  ["4,000,001 characters", talk(textMessage("user", "x".repeat(4_000_001))), "messages"],
  [
    "17 images",
    talk({ role: "user", parts: Array.from({ length: 17 }, () => image(PNG)) }),
    "messages",
  ],
  [
    "an image of an assistant",
    talk(user, { role: "assistant", parts: [image(PNG)] }),
    "messages[1].parts",
  ],
  ["an empty image", talk({ role: "user", parts: [image({})] }), "messages[0].parts[0].image"],
  [
    "an image without its type",
    talk({ role: "user", parts: [image({ data: "AAAA" })] }),
    "messages[0].parts[0].image",
  ],
  [
    "an image that is not base64",
    talk({ role: "user", parts: [image({ ...PNG, data: "Grüße" })] }),
    "messages[0].parts[0].image",
  ],
  [
    "an image over http",
    talk({ role: "user", parts: [image({ url: "http://example.org" })] }),
    "messages[0].parts[0].image.url",
  ],
  [
    "tool calls of the user",
    talk({ ...user, toolCalls: [{ id: "1", name: "a", arguments: "{}" }] }, result("1")),
    "messages[0].toolCalls",
  ],
  ["a result without a call", talk(user, result("1")), "messages[1].toolCallId"],
  [
    "two results of one call",
    talk(user, calling([{ id: "1" }]), result("1"), result("1")),
    "messages[3].toolCallId",
  ],
  [
    "a call without a result",
    talk(user, calling([{ id: "1" }, { id: "2" }]), result("1"), user),
    "messages[3].role",
  ],
  ["a last call without a result", talk(user, calling([{ id: "1" }])), "messages"],
  [
    "two calls with one id",
    talk(user, calling([{ id: "1" }, { id: "1" }]), result("1")),
    "messages[1].toolCalls[1].id",
  ],
  [
    "arguments that are a list",
    talk(user, calling([{ id: "1", arguments: "[]" }]), result("1")),
    "messages[1].toolCalls[0].arguments",
  ],
  [
    "arguments that are not JSON",
    talk(user, calling([{ id: "1", arguments: "{" }]), result("1")),
    "messages[1].toolCalls[0].arguments",
  ],
  [
    "arguments 65 deep",
    talk(user, calling([{ id: "1", arguments: nested(65) }]), result("1")),
    "messages[1].toolCalls[0].arguments",
  ],
  [
    "two tools with one name",
    { ...talk(user), tools: [{ name: "a" }, { name: "a" }] },
    "tools[1].name",
  ],
  ["a tool whose name has a space", { ...talk(user), tools: [{ name: "a b" }] }, "tools[0].name"],
  [
    "a tool with a broken schema",
    { ...talk(user), tools: [{ name: "a", parametersJson: "{" }] },
    "tools[0].parametersJson",
  ],
  [
    "a tool with a deep schema",
    { ...talk(user), tools: [{ name: "a", parametersJson: nested(65) }] },
    "tools[0].parametersJson",
  ],
  [
    "a tool with a large schema",
    { ...talk(user), tools: [{ name: "a", parametersJson: `{"a":"${"x".repeat(65_536)}"}` }] },
    "tools[0].parametersJson",
  ],
  [
    "a choice of an unknown tool",
    { ...talk(user), toolChoice: { mode: "function", name: "a" } },
    "toolChoice",
  ],
  [
    "a required tool without tools",
    { ...talk(user), toolChoice: { mode: "required" } },
    "toolChoice",
  ],
  [
    "a schema without a name",
    { ...talk(user), responseFormat: { type: "json_schema", schemaJson: "{}" } },
    "responseFormat.name",
  ],
  [
    "a broken schema",
    { ...talk(user), responseFormat: { type: "json_schema", name: "a", schemaJson: "" } },
    "responseFormat.schemaJson",
  ],
  [
    "text with a schema",
    { ...talk(user), responseFormat: { type: "text", schemaJson: "{}" } },
    "responseFormat",
  ],
  ["5 stops", { ...talk(user), stop: ["1", "2", "3", "4", "5"] }, "stop"],
  ["a seed beyond 2^53", { ...talk(user), seed: 2n ** 53n }, "seed"],
  ["a topP of 2", { ...talk(user), topP: 2 }, "topP"],
  ["an unknown effort", { ...talk(user), reasoningEffort: "huge" }, "reasoningEffort"],
  [
    "a name of an ignored field with a line end",
    { ...talk(user), ignored: ["a\r\nb"] },
    "ignored[0]",
  ],
];

test.for(WRONG)("Complete: %s is rejected", async ([, request, fields], { account }) => {
  const error = await errorOf(readCompletion(app, { model: "model-a-1", ...request }, account));
  expect(error.code).toBe(Code.InvalidArgument);
  const violations = error.findDetails(FailureSchema)[0]?.violations ?? [];
  expect(violations.map(({ field }) => field).join()).toBe(fields);
  expect(violations.map(({ unsupported }) => unsupported ?? false)).not.toContain(true);
});

test("Complete: values at their limits are accepted", async ({ account }) => {
  const text = `case: plain ${"x".repeat(3_999_000)}`;
  await readCompletion(app, completionOf(text, "model-a-1"), account);
  const messages = [
    textMessage("user", "Hello."),
    calling([
      { id: "1", arguments: nested(64) },
      { id: "2", arguments: " " },
    ]),
    { ...result("1"), ...textMessage("tool", "") },
    { ...result("2"), ...textMessage("tool", "case: plain") },
  ];
  for (const model of ["model-a-1", "model-b-1", "model-d-1"])
    await readCompletion(app, { model, messages }, account);
});

test("Complete: a model whose provider has no key is refused as not configured, and is not listed", async () => {
  const account = await unconfigured.signIn();
  const { listModels, getModel } = unconfigured.grpc(AIService);
  const request = completionOf("Hello.", "model-d-1");
  const message = "The AI provider provider-d is not configured: MISTRAL_API_KEY is missing.";
  await expect(readCompletion(unconfigured, request, account)).rejects.toThrow(message);
  const { models } = await listModels({}, account);
  expect(models.map(({ provider }) => provider)).not.toContain("provider-d");
  expect((await errorOf(getModel({ model: "model-d-1" }, account))).code).toBe(Code.NotFound);
});

test("ListModels, GetModel: return the models of all providers with their names for Complete", async ({
  account,
}) => {
  const { listModels, getModel } = app.grpc(AIService);
  const { models } = await listModels({}, account);
  expect(models.map(({ model }) => model).slice(0, 6)).toEqual([
    "model-a-1",
    "model-a-2",
    "model-a-3",
    "embedding-a-1",
    "embedding-a-2",
    "model-b-1",
  ]);
  expect(models[0]).toMatchObject({ provider: "provider-a", checkedAt: { nanos: 0 } });
  for (const model of ["model-b-1", "provider-b/model-b-1"])
    expect((await getModel({ model }, account)).model).toEqual(models[5]);
  expect((await errorOf(getModel({ model: "model-z" }, account))).code).toBe(Code.NotFound);
});

test("Complete, ListModels, GetModel: an API key can use the models that it names, and no others", async ({
  account,
}) => {
  const created = await account.post("/user/api-keys", {
    name: "models",
    models: ["model-a-2", "provider-b/model-b-1"],
  });
  expect(created.status).toBe(200);
  const key = { headers: bearer(created.body.key) };
  const { listModels, getModel } = app.grpc(AIService);
  const { models } = await listModels({}, key);
  expect(models.map(({ model }) => model)).toEqual(["model-a-2", "model-b-1"]);
  expect((await getModel({ model: "provider-b/model-b-1" }, key)).model?.model).toBe("model-b-1");
  const completed = await readCompletion(app, completionOf("case: plain", "model-a-2"), key);
  expect(completed.finished?.finishReason).toBe("stop");
  for (const model of ["model-a-1", "provider-a/model-a-1", "model-c-1"]) {
    const other = readCompletion(app, completionOf("case: plain", model), key);
    expect((await errorOf(other)).code, model).toBe(Code.NotFound);
    expect((await errorOf(getModel({ model }, key))).code, model).toBe(Code.NotFound);
  }
});
