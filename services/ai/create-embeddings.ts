import { setImmediate as nextTurn } from "node:timers/promises";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  CreateEmbeddingsRequest,
  EmbeddingsEventSchema,
} from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { invalidFields, type Violation } from "../platform/rpc/errors.ts";
import { isEmbedding } from "./catalogue.ts";
import { charactersIn } from "./characters.ts";
import { MAX_CHARACTERS } from "./check-completion.ts";
import { findAlias, findModel, type Target } from "./models.ts";
import type { EmbeddingPrompt, ReplyEvent, Vector } from "./providers/provider.ts";
import {
  costIn,
  type ReplyDeps,
  type ReplyView,
  type Response,
  readReply,
  requireProvider,
} from "./read-reply.ts";

type EventInit = MessageInitShape<typeof EmbeddingsEventSchema>;
type FinishedInit = Extract<EventInit["event"], { case: "finished" }>["value"];

/** Checks what the constraints of single fields can't express. */
export const checkEmbeddings = ({ input }: CreateEmbeddingsRequest): Violation[] =>
  charactersIn(input, MAX_CHARACTERS) > MAX_CHARACTERS
    ? [{ field: "input", message: `must contain at most ${MAX_CHARACTERS} characters` }]
    : [];

/** Embeddings that are sent before other calls get their turn. */
const EMBEDDINGS_PER_TURN = 32;

/**
 * Embeds texts. Nothing is sent before the first pull of the events. They end without an error only
 * if there is an embedding of every text.
 * @throws ServiceError NOT_FOUND, VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED; while reading
 * PROVIDER_ERROR
 */
export function createEmbeddings(
  call: ReplyDeps,
  request: CreateEmbeddingsRequest,
  response: Response,
): AsyncIterable<EventInit> {
  const target = findTarget(call, request.model);
  const prompt: EmbeddingPrompt = {
    model: target.model,
    isStream: false,
    inputs: request.input,
    dimensions: request.dimensions,
    encodingFormat: request.encodingFormat as EmbeddingPrompt["encodingFormat"],
  };
  const characters = charactersIn(request.input, MAX_CHARACTERS);
  const route = { targets: [{ entry: target.entry, prompt }] as const, characters };
  return inTurns(readReply(call, route, response, viewOf(target, request.ignored)));
}

/** @throws ServiceError NOT_FOUND, VALIDATION_FAILED for another model, PROVIDER_NOT_CONFIGURED */
function findTarget(call: ReplyDeps, name: string): Target {
  if (findAlias(call, name)) throw otherModel(ALIAS);
  const target = findModel(call, name);
  if (!isEmbedding(target.model)) throw otherModel(NO_EMBEDDINGS);
  requireProvider(call.ai, target.entry);
  return target;
}

const otherModel = (message: string) =>
  invalidFields([{ field: "model", message, unsupported: true }]);

const NO_EMBEDDINGS = "is not an embedding model: use POST /v1/chat/completions";
const ALIAS =
  "is an alias, and vectors of different models can't be compared: name an embedding model";

/** What the caller gets. */
function viewOf({ entry, model }: Target, ignored: readonly string[]): ReplyView<EventInit> {
  let usage: FinishedInit["usage"];
  return {
    outputsOf(event: ReplyEvent, call): EventInit[] {
      if (event.kind === "usage") usage = { ...event.usage, ...costIn(call) };
      if (event.kind === "finished")
        return [{ event: { case: "finished", value: { ...(usage && { usage }) } } }];
      if (event.kind !== "embeddings") return [];
      const started = { id: call.id, provider: entry.id, model: model.name, ignored: [...ignored] };
      return [{ event: { case: "started", value: started } }, ...event.vectors.map(embeddingOf)];
    },
  };
}

const embeddingOf = (vector: Vector, index: number): EventInit => ({
  event: {
    case: "embedding",
    value:
      "base64" in vector
        ? { index, base64: vector.base64 }
        : { index, numbers: vector.numbers as number[] },
  },
});

/** Lets other calls run between the events, since writing millions of numbers takes a second. */
async function* inTurns(events: AsyncIterable<EventInit>): AsyncGenerator<EventInit, void> {
  let count = 0;
  for await (const event of events) {
    yield event;
    if (++count % EMBEDDINGS_PER_TURN === 0) await nextTurn();
  }
}
