// AI calls: conversations, routes and RPCs, event streams.

import { expect } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import {
  type SimulatedDialect,
  startProviderSimulator,
} from "../../../scripts/simulators/simulator.ts";
import type { TestApp } from "../app.ts";
import { bearer, postJson } from "../http/client.ts";
import { forSuite } from "../suites.ts";

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

/**
 * Reads an event stream strictly: chunks that are not empty, at most one error, and one [DONE] at
 * the end.
 */
export function eventsIn(body: string): { text: string; error: string | undefined } {
  expect(body.endsWith("data: [DONE]\n\n")).toBe(true);
  const events = body
    .replace(/^:.*\n\n/gm, "")
    .split("\n\n")
    .slice(0, -2);
  let text = "";
  let error: string | undefined;
  for (const event of events) {
    expect(error).toBeUndefined();
    expect(event).toMatch(/^data: \{.*\}$/);
    const data = JSON.parse(event.slice("data: ".length));
    if (Object.hasOwn(data, "error")) error = data.error;
    else expect(data.chunk).toMatch(/./s);
    text += data.chunk ?? "";
  }
  return { text, error };
}

/** Texts without a visible character, by the name of a character in them. */
export const BLANKS: [name: string, text: string][] = [
  ["nothing", ""],
  ["blanks and tabs", " \t  "],
  ["line ends", "\n\r\n\r"],
  ["no-break spaces", "\u00a0\u202f"],
  ["a byte order mark", "\ufeff"],
  ["typographic spaces", "\u2002\u2009\u3000\u1680\u205f"],
  ["line separators", "\u2028\u2029\u0085"],
  ["zero-width characters", "\u200b\u200c\u200d\u2060"],
  ["soft hyphens", "\u00ad"],
  ["fillers", "\u3164\u115f\uffa0"],
  ["variation selectors and tags", "\ufe0f\u{e0101}\u{e0020}"],
  ["control characters", "\u0001\u001c\u001f\u007f"],
];
