import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { conversationOf } from "../../support/ai-calls.ts";
import { testApp } from "../../support/app.ts";
import { errorOf } from "../../support/stub-transports.ts";

const app = await testApp();
const PROVIDERS = ["provider-a", "provider-b", "provider-c", "provider-d"] as const;

test.each(PROVIDERS)(
  "POST /ai/chat, Chat: %s reports a reply that ended at the maximum of tokens",
  async (provider) => {
    const { browser, accessToken } = await app.signIn();
    const headers = { authorization: `Bearer ${accessToken}` };
    for (const [name, content] of [
      ["at-maximum", REPLY],
      ["empty-at-maximum", ""],
    ]) {
      const conversation = conversationOf(`case: ${name}`, provider);
      const { body } = await browser.post("/ai/chat", conversation, accessToken);
      expect(body).toMatchObject({ content, finishReason: "length" });
      const reply = await app.grpc(AIService).chat(conversation, { headers });
      expect(reply).toMatchObject({ content, finishReason: "length" });
    }
  },
);

test("POST /ai/chat, /ai/stream, Chat, StreamChat: a temperature that the model ignores is named in a header", async () => {
  const { browser, accessToken } = await app.signIn();
  const headers = { authorization: `Bearer ${accessToken}` };
  for (const [given, ignored] of [
    [{ model: "model-a-1", temperature: 0 }, "temperature"],
    [{ model: "model-a-1" }, null],
    [{ model: "model-a-3", temperature: 1 }, null],
  ] as const) {
    const conversation = { ...conversationOf("case: plain"), ...given };
    const found: (string | null)[] = [];
    const onHeader = (header: Headers) => void found.push(header.get("x-ai-ignored"));
    for (const path of ["/ai/chat", "/ai/stream"])
      onHeader((await browser.post(path, conversation, accessToken)).headers);
    await app.grpc(AIService).chat(conversation, { headers, onHeader });
    for await (const _ of app.grpc(AIService).streamChat(conversation, { headers, onHeader }))
      expect(found.length).toBe(4);
    expect(found).toEqual([ignored, ignored, ignored, ignored]);
  }
});

test.each(["/ai/chat", "/ai/stream"])("POST %s: one response has all violations", async (path) => {
  const { browser, accessToken } = await app.signIn();
  const fieldsOf = async (wrong: object) => {
    const { status, body } = await browser.post(path, { ...conversationOf("case: plain"), ...wrong }, accessToken);
    expect(status).toBe(400);
    return body.violations.map(({ field }: { field: string }) => field);
  };
  const messages = [{ role: "assistant", content: "Hello." }];
  expect(await fieldsOf({ model: "model-z", messages })).toEqual(["model", "messages"]);
  expect(await fieldsOf({ temperature: 3, provider: "provider-z", messages })).toEqual([
    "temperature",
    "provider",
    "messages",
  ]);
  const robot = { role: "robot", content: 1 };
  expect(await fieldsOf({ maxTokens: "1", temperature: 3, model: "model-z", messages: [robot] })).toEqual([
    "messages[0].content",
    "maxTokens",
    "messages[0].role",
    "temperature",
    "model",
    "messages",
  ]);
});

test("Chat, StreamChat: one error has all violations, and metadata of type errors that is malformed is refused", async () => {
  const { accessToken } = await app.signIn();
  const ask = async (headers: Record<string, string>) => {
    const wrong = { ...conversationOf("Hello.", "provider-z"), temperature: 3 };
    const options = { headers: { authorization: `Bearer ${accessToken}`, ...headers } };
    const { chat, streamChat } = app.grpc(AIService);
    const errors = await Promise.all(
      [chat(wrong, options), streamChat(wrong, options)[Symbol.asyncIterator]().next()].map(errorOf),
    );
    return errors.map((error) => error.findDetails(FailureSchema)[0]);
  };
  for (const failure of await ask({}))
    expect(failure?.violations.map(({ field }) => field)).toEqual(["temperature", "provider"]);
  for (const failure of await ask({ "x-gatehouse-type-errors": "{" }))
    expect(failure?.reason).toBe(Reason.MALFORMED_REQUEST);
});
