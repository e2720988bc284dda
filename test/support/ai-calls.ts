import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import {
  type SimulatedDialect,
  startProviderSimulator,
} from "../../scripts/simulators/simulator.ts";
import type { TestApp } from "./app.ts";
import { forSuite } from "./closing.ts";
import { bearer, postJson } from "./http-client.ts";

/** The providers of the shipped catalogue. Each has a simulator in the test app. */
export const PROVIDERS = ["provider-a", "provider-b", "provider-c", "provider-d"] as const;

/**
 * A conversation of one message. The provider simulator answers the case of a message such as
 * `case: plain`.
 */
export const conversationOf = (content: string, provider = "provider-a") => ({
  provider,
  messages: [{ role: "user", content }],
});

/** Starts a simulated provider for one suite, and closes it after the suite. */
export const startSuiteProvider = (dialect: SimulatedDialect = "openai") =>
  forSuite(startProviderSimulator({ dialect }));

/** A call that resolves when its reply has ended. */
export type AiCall = (content: string, token: string, signal: AbortSignal) => Promise<unknown>;

/** The routes and RPCs that call a model. */
export function aiCallsOf(app: TestApp): Record<string, AiCall> {
  const rest =
    (path: string): AiCall =>
    async (content, token, signal) =>
      (await postJson(app.url + path, conversationOf(content), token, signal)).text();
  const optionsOf = (token: string, signal: AbortSignal) => ({ signal, headers: bearer(token) });
  return {
    "POST /ai/stream": rest("/ai/stream"),
    "POST /ai/chat": rest("/ai/chat"),
    StreamChat: async (content, token, signal) => {
      const stream = app
        .grpc(AIService)
        .streamChat(conversationOf(content), optionsOf(token, signal));
      for await (const _ of stream);
    },
    Chat: (content, token, signal) =>
      app.grpc(AIService).chat(conversationOf(content), optionsOf(token, signal)),
  };
}
