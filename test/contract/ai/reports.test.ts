import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { conversationOf, PROVIDERS } from "../../support/ai-calls.ts";
import { testApp } from "../../support/app.ts";
import { errorOf } from "../../support/stub-transports.ts";

const app = await testApp();

test.each(PROVIDERS)("POST /ai/chat, Chat: %s reports the end at the maximum of tokens", async (provider) => {
  const account = await app.signIn();
  for (const [name, content] of Object.entries({ "at-maximum": REPLY, "empty-at-maximum": "" })) {
    const conversation = conversationOf(`case: ${name}`, provider);
    const ended = { content, finishReason: "length" };
    expect((await account.post("/ai/chat", conversation)).body).toMatchObject(ended);
    expect(await app.grpc(AIService).chat(conversation, account)).toMatchObject(ended);
  }
});

test("POST /ai/chat, /ai/stream, Chat, StreamChat: a temperature that the model ignores is named in a header", async () => {
  const { post, headers } = await app.signIn();
  for (const [given, ignored] of [
    [{ model: "model-a-1", temperature: 0 }, "temperature"],
    [{ model: "model-a-1" }, null],
    [{ model: "model-a-3", temperature: 1 }, null],
  ] as const) {
    const conversation = { ...conversationOf("case: plain"), ...given };
    const found: (string | null)[] = [];
    const onHeader = (header: Headers) => void found.push(header.get("x-ai-ignored"));
    for (const path of ["/ai/chat", "/ai/stream"]) onHeader((await post(path, conversation)).headers);
    await app.grpc(AIService).chat(conversation, { headers, onHeader });
    for await (const _ of app.grpc(AIService).streamChat(conversation, { headers, onHeader }))
      expect(found.length).toBe(4);
    expect(found).toEqual([ignored, ignored, ignored, ignored]);
  }
});

test("Chat, StreamChat: one error has all violations, and metadata of type errors that is malformed is refused", async () => {
  const account = await app.signIn();
  const ask = async (headers: Record<string, string>) => {
    const wrong = { ...conversationOf("Hello.", "provider-z"), temperature: 3 };
    const options = { headers: { ...account.headers, ...headers } };
    const { chat, streamChat } = app.grpc(AIService);
    const calls = [chat(wrong, options), streamChat(wrong, options)[Symbol.asyncIterator]().next()];
    return (await Promise.all(calls.map(errorOf))).map((error) => error.findDetails(FailureSchema)[0]);
  };
  for (const failure of await ask({}))
    expect(failure?.violations.map(({ field }) => field)).toEqual(["temperature", "provider"]);
  for (const failure of await ask({ "x-gatehouse-type-errors": "{" }))
    expect(failure?.reason).toBe(Reason.MALFORMED_REQUEST);
});
