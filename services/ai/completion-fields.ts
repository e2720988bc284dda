import type { CompleteRequest } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { Violation } from "../platform/rpc/errors.ts";
import { isEmbedding } from "./catalogue.ts";
import { EMBEDDINGS_ONLY, type Target } from "./models.ts";
import type { Prompt, ReasoningEffort } from "./providers/provider.ts";

/** The fields of a prompt that depend on what the model supports. */
type ModelFields = Pick<
  Prompt,
  | "temperature"
  | "topP"
  | "frequencyPenalty"
  | "presencePenalty"
  | "seed"
  | "reasoningEffort"
  | "parallelToolCalls"
>;

/**
 * Compares a request with what its model supports. Fields that change the meaning of the reply are
 * rejected; fields that only tune it are omitted and listed.
 * @returns the violations, the names of the ignored fields, and the fields to send
 */
export function adaptRequest(
  request: CompleteRequest,
  target: Target,
): { violations: Violation[]; ignored: string[]; fields: ModelFields } {
  const { fields, ignored } = tuningOf(request, target);
  return {
    violations: refusalsOf(request, target).map(([field, message]) => ({
      field,
      message,
      unsupported: true,
    })),
    ignored: [...ignored, ...ignoredDetails(request, target)],
    fields: { ...fields, parallelToolCalls: request.parallelToolCalls },
  };
}

type Refusal = [field: string, message: string];

/** The unsupported fields and values that change the meaning of the reply. */
function refusalsOf(request: CompleteRequest, target: Target): Refusal[] {
  const { tools, responseFormat, parallelToolCalls } = request;
  const { entry, model } = target;
  if (isEmbedding(model)) return [["model", EMBEDDINGS_ONLY]];
  const refusals = imageRefusals(request, target);
  if (tools.length > 0 && !model.tools)
    refusals.push(["tools", "is not supported by this model: it calls no tools"]);
  if (tools.length > 0 && parallelToolCalls === false && entry.dialect === "google")
    refusals.push(["parallelToolCalls", "must be true for this model"]);
  if (responseFormat?.type === "json_schema" && !model.schema)
    refusals.push(["responseFormat", "is not supported by this model: it follows no JSON Schema"]);
  if (responseFormat?.type === "json_object" && entry.dialect === "anthropic")
    refusals.push(["responseFormat", "must be json_schema instead of json_object for this model"]);
  return refusals;
}

function imageRefusals({ messages }: CompleteRequest, { entry, model }: Target): Refusal[] {
  const images = messages.flatMap(({ parts }, index) =>
    parts.flatMap(({ part }, at) =>
      part.case === "image"
        ? [{ path: `messages[${index}].parts[${at}].image`, url: part.value.url }]
        : [],
    ),
  );
  if (!model.input.includes("image"))
    return images.map(({ path }) => [path, "is not supported by this model: it reads only text"]);
  if (entry.dialect !== "google") return [];
  return images
    .filter(({ url }) => url !== "")
    .map(({ path }) => [`${path}.url`, "is not supported by this model: send the data instead"]);
}

/** The fields that only tune the reply: those to send, and the names of the others. */
function tuningOf(request: CompleteRequest, target: Target) {
  const { entry, model } = target;
  const isAnthropic = entry.dialect === "anthropic";
  const effort = request.reasoningEffort as ReasoningEffort | undefined;
  const takesEffort = model.reasoning && !(isAnthropic && isThoughtless(request));
  const sentEffort = takesEffort ? effort : undefined;
  const isSampled = model.temperature !== "refused" && !excludesSampling(sentEffort, target);
  const given: ModelFields = {
    temperature: request.temperature,
    topP: request.topP,
    frequencyPenalty: request.frequencyPenalty,
    presencePenalty: request.presencePenalty,
    seed: request.seed === undefined ? undefined : Number(request.seed),
    reasoningEffort: effort,
  };
  const isTaken: Record<keyof typeof NAMES, boolean> = {
    temperature: isSampled,
    topP: isSampled,
    frequencyPenalty: isSampled && !isAnthropic,
    presencePenalty: isSampled && !isAnthropic,
    seed: !isAnthropic,
    reasoningEffort: takesEffort,
  };
  const fields: ModelFields = {};
  const ignored: string[] = [];
  for (const name of Object.keys(NAMES) as (keyof typeof NAMES)[]) {
    if (given[name] === undefined) continue;
    if (isTaken[name]) Object.assign(fields, { [name]: given[name] });
    else ignored.push(NAMES[name]);
  }
  return { fields, ignored };
}

/** The fields that may be ignored, by their names in `X-AI-Ignored`. */
const NAMES = {
  temperature: "temperature",
  topP: "top_p",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  seed: "seed",
  reasoningEffort: "reasoning_effort",
} as const;

/**
 * Whether Anthropic's models cannot reason about a request: it has results of tool calls whose
 * signed thinking blocks are not part of the conversation, or it forces a tool.
 */
const isThoughtless = ({ messages, toolChoice }: CompleteRequest) =>
  messages.some(({ role }) => role === "tool") ||
  toolChoice?.mode === "required" ||
  toolChoice?.mode === "function";

/** Whether a model that reasons with this effort rejects a temperature. */
function excludesSampling(
  effort: ReasoningEffort | undefined,
  { entry: { dialect }, model }: Target,
): boolean {
  if (effort === undefined) return false;
  if (dialect === "anthropic") return effort !== "none" && effort !== "minimal";
  return model.reasoningEffort !== undefined && effort !== model.reasoningEffort;
}

/**
 * Fields, and parts of them, that mean nothing in this request or have no equivalent at the
 * provider.
 */
function ignoredDetails(
  { messages, tools, toolChoice, parallelToolCalls, responseFormat }: CompleteRequest,
  { entry: { dialect } }: Target,
): string[] {
  const hasDetail = messages.some(({ parts }) =>
    parts.some(({ part }) => part.case === "image" && isDetailed(part.value.detail)),
  );
  const isForeign = dialect === "anthropic" || dialect === "google";
  const hasTools = tools.length > 0;
  return [
    ...(toolChoice && !hasTools ? ["tool_choice"] : []),
    ...(parallelToolCalls !== undefined && !hasTools ? ["parallel_tool_calls"] : []),
    ...(hasDetail && dialect !== "openai" ? ["detail"] : []),
    ...(dialect === "google" && tools.some(({ strict }) => strict) ? ["strict"] : []),
    ...(isForeign && responseFormat?.description ? ["response_format.description"] : []),
  ];
}

const isDetailed = (detail: string) => detail !== "" && detail !== "auto";
