import { readFileSync } from "node:fs";
import type { SimulatedDialect } from "../../../../scripts/simulators/simulator.ts";
import type { ScriptedResponse } from "../../../support/ai/scripted-provider.ts";
import type { Tokens } from "./calls.ts";

/** An input that a public bug report describes. */
type Observed = {
  id: string;
  kind: string;
  source: string;
  dialect: SimulatedDialect;
  /** The route that the report is about. Every input is played on all routes. */
  call: "/ai/chat" | "/ai/stream";
  request: {
    provider: string;
    systemPrompt?: string;
    messages: { role: string; content: string }[];
  };
};

/** A reply, and its right outcome. */
export type ObservedReply = Observed & {
  /** The responses to the first request, to the second, and so on. */
  upstream: ScriptedResponse[];
  expected: {
    /** The text that arrives, before a failure too. */
    text: string;
    end: "stop" | "length" | "failure";
    failureSays?: string;
    /** What the provider reports. */
    usage?: Tokens;
    /** What is estimated from the text, since the provider's counts cannot be right. */
    estimated?: Tokens;
    upstreamCalls?: number;
  };
  /** Why the official SDK makes something else of the reply. Absent where it does not. */
  sdkDiffers?: string;
};

/** What a server rejects. */
export type Refusal = {
  when: "a text is blank" | "no user-agent" | "no accept" | "a system instruction";
  status: number;
  type: string;
  body: string;
};

/** A request: what its server accepts, and its response to a valid one, with the text `hi`. */
export type ObservedRequest = Observed & {
  /** Settings of the process. `{origin}` is the server's. */
  env?: Record<string, string>;
  /** The only model of the provider in the catalogue, instead of the shipped ones. */
  model?: object;
  /** The number of consecutive calls, by default one. */
  times?: number;
  upstream: {
    refusals?: Refusal[];
    /** The only path that exists, and that of streams. */
    path?: string;
    streamPath?: string;
    /**
     * Header fields of the response, beside the content type. `{length}` is that of the body,
     * `{20000 characters}` a text of this length.
     */
    head?: string[];
    isChunked?: boolean;
    /** Each connection is reset when a second request arrives on it. */
    resetsReusedConnections?: boolean;
  };
  expected: {
    text?: string;
    end?: "stop";
    failureSays?: string;
    /** The field that the product itself rejects. */
    refused?: string;
    upstreamCalls?: number;
    /** At least one connection was reset, so that the row tests something. */
    hasResets?: boolean;
    /** Of the last request. Header fields are patterns. */
    sent?: { headers?: Record<string, string>; body?: object; lacks?: string[] };
  };
};

const file = new URL("./cases.json", import.meta.url);

/** All inputs, in two forms: a reply is a list of responses, a request has a server with rules. */
export const OBSERVED: (ObservedReply | ObservedRequest)[] = JSON.parse(readFileSync(file, "utf8"));

const isReply = (input: ObservedReply | ObservedRequest): input is ObservedReply =>
  Array.isArray(input.upstream);

export const OBSERVED_REPLIES = OBSERVED.filter(isReply);
export const OBSERVED_REQUESTS = OBSERVED.filter(
  (input): input is ObservedRequest => !isReply(input),
);
