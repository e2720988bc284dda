// Completions over gRPC: their events, folded.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions } from "@connectrpc/connect";
import {
  AIService,
  type CompleteEvent,
  type CompleteRequestSchema,
  type Finished,
  type Started,
  type ToolCallDelta,
} from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { TestApp } from "../app.ts";

/** A request, whose fields may be absent. */
export type CompletionInit = Exclude<
  MessageInitShape<typeof CompleteRequestSchema>,
  { $typeName: string }
>;

/** A tool call of a reply, its pieces joined. */
export type ReadCall = { id: string; name: string; arguments: string; thoughtSignature?: string };

/** The events of a reply, joined, and their kinds in order, without repetitions. */
export type ReadCompletion = {
  kinds: string[];
  started: Started | undefined;
  text: string;
  reasoning: string;
  calls: ReadCall[];
  finished: Finished | undefined;
};

/** A message of one text. */
export const textMessage = (role: string, text: string) => ({
  role,
  parts: [{ part: { case: "text" as const, value: text } }],
});

/** A request of one message. */
export const completionOf = (text: string, model: string): CompletionInit => ({
  model,
  messages: [textMessage("user", text)],
});

/**
 * Reads a completion to its end.
 * @throws ConnectError
 */
export async function readCompletion(
  app: TestApp,
  request: CompletionInit,
  options: CallOptions,
): Promise<ReadCompletion> {
  const read: ReadCompletion = {
    kinds: [],
    started: undefined,
    text: "",
    reasoning: "",
    calls: [],
    finished: undefined,
  };
  for await (const { event } of app.grpc(AIService).complete(request, options)) fold(event, read);
  return read;
}

function fold(event: CompleteEvent["event"], read: ReadCompletion): void {
  if (read.kinds.at(-1) !== event.case) read.kinds.push(event.case ?? "none");
  switch (event.case) {
    case "started":
      read.started = event.value;
      break;
    case "text":
      read.text += event.value;
      break;
    case "reasoning":
      read.reasoning += event.value;
      break;
    case "toolCall":
      foldCall(event.value, read.calls);
      break;
    case "finished":
      read.finished = event.value;
  }
}

function foldCall({ index, id, name, ...delta }: ToolCallDelta, calls: ReadCall[]): void {
  const known = calls[index];
  if (!known) {
    const { arguments: json, thoughtSignature: signature } = delta;
    calls[index] = { id, name, arguments: json, ...(signature && { thoughtSignature: signature }) };
    return;
  }
  if (id || name) throw new Error("Only the first piece of a call has id and name.");
  known.arguments += delta.arguments;
}
