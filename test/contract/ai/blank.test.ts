import { describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { BLANKS, conversationOf, PROVIDERS } from "../../support/ai/calls.ts";
import { testApp } from "../../support/app.ts";
import { errorOf } from "../../support/http/stub-services.ts";

const app = await testApp();

describe("AI: a conversation without text of the user", () => {
  test.each(BLANKS)("is 400 at every route and RPC: %s", async (_, blank) => {
    const { post, headers } = await app.signIn();
    const turns = ["user", "assistant", "system", "user"].map((role) => ({ role, content: blank }));
    const conversation = { provider: "provider-b", systemPrompt: blank, messages: turns };
    const violations = [{ field: "messages" }];
    for (const path of ["/ai/chat", "/ai/stream"]) {
      const answer = await post(path, conversation);
      expect(answer).toMatchObject({
        status: 400,
        body: { code: "VALIDATION_FAILED", violations },
      });
      expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    }
    const { chat, streamChat } = app.grpc(AIService);
    const calls = [
      chat(conversation, { headers }),
      streamChat(conversation, { headers })[Symbol.asyncIterator]().next(),
    ];
    for (const error of await Promise.all(calls.map(errorOf)))
      expect(error.findDetails(FailureSchema)[0]?.violations).toMatchObject(violations);
  });
});

test.each(PROVIDERS)(
  "POST /ai/chat: %s replies to a conversation that also has blank turns",
  async (provider) => {
    const { post } = await app.signIn();
    const [asked] = conversationOf("case: plain").messages;
    const blank = (role: string) => ({ role, content: "\n\n\u00a0" });
    const conversation = {
      provider,
      systemPrompt: "\n\n",
      messages: [blank("user"), asked, blank("assistant"), blank("system"), blank("user")],
    };
    const { status, body } = await post("/ai/chat", conversation);
    expect({ status, content: body.content }).toEqual({ status: 200, content: REPLY });
  },
);
