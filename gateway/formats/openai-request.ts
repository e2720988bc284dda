import {
  create,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { CompleteRequestSchema } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { invalidFields, type Violation } from "../../services/platform/rpc/errors.ts";
import { violationsOf, withOthers } from "../../services/platform/rpc/validation.ts";
import { isObject, readFields } from "../transcode/fields.ts";

/**
 * Reads the body of OpenAI's `POST /v1/chat/completions`. It is converted to the JSON of a
 * `CompleteRequest`, whose types are then checked like those of any other method. Fields that would
 * change the meaning of a reply and have no equivalent are rejected. The names of fields that only
 * tune the reply are collected. Nothing is dropped silently.
 */

type Json = Record<string, unknown>;

/** The violations of a request, and its ignored fields. */
export type Findings = { violations: Violation[]; ignored: Set<string> };

/** Fields that {@link readCompletion} reads. */
const FIELDS = [
  "model",
  "messages",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "response_format",
  "max_completion_tokens",
  "max_tokens",
  "temperature",
  "top_p",
  "frequency_penalty",
  "presence_penalty",
  "stop",
  "seed",
  "reasoning_effort",
  "stream",
  "stream_options",
];

/**
 * A rejected field. `harmless`: accepted values, because they request what every reply does anyway.
 */
type Refusal = { message: string; harmless?: unknown[] };

/**
 * Rejected fields: they change the meaning of a reply, and no model behind this service can honour
 * them.
 */
const REFUSED: Readonly<Record<string, Refusal>> = {
  n: { message: "is supported only as 1, because a reply has one choice", harmless: [1] },
  logprobs: {
    message: "is not supported, because replies have no probabilities",
    harmless: [false],
  },
  top_logprobs: {
    message: "is not supported, because replies have no probabilities",
    harmless: [0],
  },
  logit_bias: { message: "is not supported, because tokens differ between models", harmless: [{}] },
  audio: { message: "is not supported, because replies are text" },
  modalities: { message: 'is supported only as ["text"]', harmless: [["text"], []] },
  moderation: { message: "is not supported, because replies have no moderation results" },
  web_search_options: { message: "is not supported, because models do not search the web" },
  prediction: { message: "is not supported, because the prediction would be part of the price" },
  functions: { message: "is not supported: use tools", harmless: [[]] },
  function_call: { message: "is not supported: use tool_choice", harmless: ["none"] },
  store: { message: "is not supported, because replies are not stored", harmless: [false] },
};

/** Whether a field is rejected whatever its value. */
export const isRefusedAlways = (field: string): boolean =>
  Object.hasOwn(REFUSED, field) && REFUSED[field]?.harmless === undefined;

/** Maximum number of ignored fields in a request: that of the field `ignored`. */
const MAX_IGNORED = 64;
/** Maximum length of the name of such a field. */
const MAX_NAME = 64;

/**
 * Reads the body of a chat completion.
 * @throws ServiceError VALIDATION_FAILED, naming all fields that are rejected or have the wrong
 * type
 */
export function readCompletion(json: object) {
  const found: Findings = { violations: [], ignored: new Set() };
  refuseFields(json as Json, found);
  const given = members(json, [...FIELDS, ...Object.keys(REFUSED)], "", found) as Json;
  const stream = given.stream ?? false;
  const includeUsage = readStreamOptions(given.stream_options, stream === true, found);
  const request = {
    model: given.model ?? "",
    messages: listOf(given.messages, "messages", messageOf, found) ?? [],
    tools: listOf(given.tools, "tools", toolOf, found),
    toolChoice: toolChoiceOf(given.tool_choice, found),
    parallelToolCalls: given.parallel_tool_calls,
    responseFormat: responseFormatOf(given.response_format, found),
    maxTokens: maxTokensOf(given, found),
    temperature: given.temperature,
    topP: given.top_p,
    frequencyPenalty: given.frequency_penalty,
    presencePenalty: given.presence_penalty,
    stop: typeof given.stop === "string" ? [given.stop] : given.stop,
    seed: given.seed,
    reasoningEffort: given.reasoning_effort,
    stream,
    ignored: ignoredNames(found),
  };
  return { message: messageFrom(CompleteRequestSchema, request, found), includeUsage };
}

/**
 * Creates the message of a request.
 * @throws ServiceError VALIDATION_FAILED with all violations found so far, if any, and the violated
 * constraints of the other fields
 */
export function messageFrom<Desc extends DescMessage>(
  schema: Desc,
  request: object,
  { violations }: Findings,
): MessageShape<Desc> {
  const init = readFields(schema.fields, request, "", violations);
  const message = create(schema, init as MessageInitShape<Desc>);
  if (violations.length === 0) return message;
  const named = ({ field, ...problem }: Violation) => ({ ...problem, field: openAiPath(field) });
  const broken = violationsOf(schema, message);
  throw invalidFields(withOthers(violations.map(named), broken.map(named)));
}

function refuseFields(json: Json, { violations }: Findings): void {
  for (const [field, { message, harmless = [] }] of Object.entries(REFUSED)) {
    const value = Object.hasOwn(json, field) ? json[field] : null;
    if (value === null) continue;
    const text = JSON.stringify(value);
    if (!harmless.some((each) => JSON.stringify(each) === text))
      violations.push({ field, message, unsupported: true });
  }
}

/**
 * The members of an object that are not null. Records members with unknown names as ignored.
 * @param at path of the object, with a trailing period; empty for the body itself
 * @returns undefined if it is not an object
 */
export function members(
  value: unknown,
  known: readonly string[],
  at: string,
  { ignored }: Findings,
): Json | undefined {
  if (!isObject(value)) return undefined;
  const given = Object.entries(value).filter(([, member]) => member !== null);
  for (const [name] of given) if (!known.includes(name)) ignored.add(at + name);
  return Object.fromEntries(given);
}

/** Names of ignored fields, without list indexes and with safe characters only. */
export function ignoredNames({ ignored, violations }: Findings): string[] {
  const names = [...ignored].map((path) =>
    path
      .replace(/\[\d+\]/g, "")
      .replace(/[^\w.-]/g, "_")
      .slice(0, MAX_NAME),
  );
  const different = [...new Set(names)];
  if (different.length <= MAX_IGNORED) return different;
  const message = `is not supported, nor are ${different.length - 1} other fields`;
  violations.push({ field: different[0] as string, message, unsupported: true });
  return [];
}

/** Converts the items of a list. Other values are left to the type check. */
const listOf = (
  value: unknown,
  at: string,
  itemOf: (item: unknown, at: string, found: Findings) => unknown,
  found: Findings,
): unknown =>
  Array.isArray(value) ? value.map((item, i) => itemOf(item, `${at}[${i}]`, found)) : value;

/** Records that a field, or its value, has no equivalent. */
function refuse(field: string, message: string, { violations }: Findings): void {
  violations.push({ field, message: `is not supported${message}`, unsupported: true });
}

const CONTENT = ["role", "content", "tool_calls", "tool_call_id"];
const ASSISTANT_CONTENT = [...CONTENT, "refusal", "audio", "function_call"];
/** Members of messages that have a meaning only with one role. */
const OF_ONE_ROLE = { tool_calls: "assistant", tool_call_id: "tool" };

function messageOf(value: unknown, at: string, found: Findings): unknown {
  if (!isObject(value)) return value;
  const { role } = value as Json;
  const fields = role === "assistant" ? ASSISTANT_CONTENT : CONTENT;
  const given = members(value, fields, `${at}.`, found) as Json;
  checkMessage(given, at, found);
  return {
    role: role === "developer" || role === "function" ? "system" : role,
    parts: [...partsOf(given, `${at}.content`, found), ...refusalOf(given.refusal)],
    toolCalls: listOf(given.tool_calls, `${at}.tool_calls`, toolCallOf, found) ?? [],
    toolCallId: given.tool_call_id ?? "",
  };
}

/** Rejects members that have no equivalent, or no meaning with the role of the message. */
function checkMessage(given: Json, at: string, found: Findings): void {
  const { role, content, audio, function_call } = given;
  for (const [name, only] of Object.entries(OF_ONE_ROLE)) {
    if (role !== only && given[name] !== undefined)
      found.violations.push({
        field: `${at}.${name}`,
        message: `is allowed only with the role ${only}`,
      });
  }
  if (role === "function") refuse(`${at}.role`, " as function: use the role tool", found);
  if (audio !== undefined) refuse(`${at}.audio`, ", because messages are text", found);
  if (function_call !== undefined) refuse(`${at}.function_call`, ": use tool_calls", found);
  if (content === undefined && role !== "assistant")
    found.violations.push({ field: `${at}.content`, message: "is required" });
}

/** The parts of a message. Empty text of the assistant, such as beside tool calls, is omitted. */
function partsOf({ role, content }: Json, at: string, found: Findings): unknown[] {
  if (content === undefined || (content === "" && role === "assistant")) return [];
  if (typeof content === "string") return [{ text: content }];
  if (Array.isArray(content)) return content.map((part, i) => partOf(part, `${at}[${i}]`, found));
  found.violations.push({ field: at, message: "must be a string or a list" });
  return [];
}

/** The text with which the assistant declined. */
const refusalOf = (refusal: unknown) => (refusal === undefined ? [] : [{ text: refusal }]);

/** The member with the content of a part, by type of the part. */
const PART_FIELDS: ReadonlyMap<unknown, string> = new Map([
  ["text", "text"],
  ["refusal", "refusal"],
  ["image_url", "image_url"],
]);

function partOf(value: unknown, at: string, found: Findings): unknown {
  if (!isObject(value)) return value;
  const { type } = value as Json;
  const field = PART_FIELDS.get(type);
  if (field === undefined) {
    const message = typeof type === "string" ? ": parts are text or image_url" : " without a type";
    refuse(`${at}.type`, message, found);
    return { text: "" };
  }
  const given = members(value, ["type", field], `${at}.`, found) as Json;
  const content = given[field];
  if (content === undefined) {
    found.violations.push({ field: `${at}.${field}`, message: "is required" });
    return { text: "" };
  }
  return field === "image_url"
    ? { image: imageOf(content, `${at}.image_url`, found) }
    : { text: content };
}

/** The head of a data URL with base64, and its media type. */
const DATA_URL = /^data:([^;,]*);base64,/i;

function imageOf(value: unknown, at: string, found: Findings): unknown {
  const given = members(value, ["url", "detail"], `${at}.`, found);
  if (!given) return value;
  const { url, detail } = given;
  if (detail === "original") found.ignored.add(`${at}.detail`); // a model that supports it chooses by itself
  const closeness = detail === "original" ? "" : (detail ?? "");
  const isData = typeof url === "string" && /^data:/i.test(url);
  if (!isData) return { mediaType: "", data: "", url: url ?? "", detail: closeness };
  const [head, type = ""] = DATA_URL.exec(url) ?? [""];
  if (!head) refuse(`${at}.url`, " with a data URL that is not in base64", found);
  return {
    mediaType: type.toLowerCase(),
    data: url.slice(head.length),
    url: "",
    detail: closeness,
  };
}

function toolCallOf(value: unknown, at: string, found: Findings): unknown {
  const given = members(value, ["id", "type", "function", "extra_content"], `${at}.`, found);
  if (!given) return value;
  if (!isFunction(given.type, `${at}.type`, found)) return REFUSED_CALL;
  const called = members(given.function, ["name", "arguments"], `${at}.function.`, found);
  if (!called) found.violations.push({ field: `${at}.function`, message: "must be an object" });
  return {
    id: given.id ?? "",
    name: called?.name ?? "",
    arguments: called?.arguments ?? "",
    thoughtSignature: signatureOf(given.extra_content, `${at}.extra_content`, found),
  };
}

/**
 * Google's signature of the thoughts before a call, in the place where Google's format for OpenAI
 * clients has it.
 */
function signatureOf(extra: unknown, at: string, found: Findings): unknown {
  const given = members(extra, ["google"], `${at}.`, found);
  return members(given?.google, ["thought_signature"], `${at}.google.`, found)?.thought_signature;
}

/** Placeholder for a tool or call of a rejected type, so that it causes no further violations. */
const REFUSED_TOOL = { name: "_" };
const REFUSED_CALL = { id: "_", name: "_", arguments: "" };

/**
 * Whether a tool or a tool call is a function, which is also the default type. Other types are
 * rejected.
 */
function isFunction(type: unknown, at: string, found: Findings): boolean {
  const isKnown = type === undefined || type === "function";
  if (!isKnown) refuse(at, " except as function", found);
  return isKnown;
}

function toolOf(value: unknown, at: string, found: Findings): unknown {
  const given = members(value, ["type", "function"], `${at}.`, found);
  if (!given) return value;
  if (!isFunction(given.type, `${at}.type`, found)) return REFUSED_TOOL;
  const known = ["name", "description", "parameters", "strict"];
  const tool = members(given.function, known, `${at}.function.`, found);
  if (!tool) found.violations.push({ field: `${at}.function`, message: "must be an object" });
  return {
    name: tool?.name ?? "",
    description: tool?.description,
    parametersJson: schemaOf(tool?.parameters, `${at}.function.parameters`, found),
    strict: tool?.strict,
  };
}

/** A JSON Schema as text. */
function schemaOf(value: unknown, at: string, found: Findings): string | undefined {
  if (value === undefined) return undefined;
  if (!isObject(value)) found.violations.push({ field: at, message: "must be an object" });
  return JSON.stringify(value);
}

function toolChoiceOf(value: unknown, found: Findings): unknown {
  if (value === undefined) return undefined;
  if (typeof value === "string") return { mode: value, name: "" };
  const given = members(value, ["type", "function"], "tool_choice.", found);
  if (!given) {
    found.violations.push({ field: "tool_choice", message: "must be a string or an object" });
    return undefined;
  }
  if (given.type !== "function") {
    refuse("tool_choice.type", " except as function", found);
    return undefined;
  }
  const chosen = members(given.function, ["name"], "tool_choice.function.", found);
  return { mode: "function", name: chosen?.name ?? "" };
}

function responseFormatOf(value: unknown, found: Findings): unknown {
  const given = members(value, ["type", "json_schema"], "response_format.", found);
  if (!given) return value;
  const { type = "" } = given;
  if (type !== "json_schema") {
    if (given.json_schema !== undefined) found.ignored.add("response_format.json_schema");
    return { type, name: "", schemaJson: "" };
  }
  const at = "response_format.json_schema.";
  const format = members(given.json_schema, ["name", "description", "schema", "strict"], at, found);
  if (!format?.schema) {
    found.violations.push({ field: `${at}schema`, message: "is required" });
    return { type, name: "", schemaJson: "" };
  }
  return {
    type,
    name: format.name ?? "",
    description: format.description,
    schemaJson: schemaOf(format.schema, `${at}schema`, found),
    strict: format.strict,
  };
}

/** The maximum number of tokens: `max_completion_tokens`, or `max_tokens`, its former name. */
function maxTokensOf({ max_completion_tokens, max_tokens }: Json, found: Findings): unknown {
  const isBoth = max_completion_tokens !== undefined && max_tokens !== undefined;
  if (isBoth && max_completion_tokens !== max_tokens)
    found.violations.push({ field: "max_tokens", message: "must equal max_completion_tokens" });
  return max_completion_tokens ?? max_tokens;
}

/** Whether the stream ends with the usage. A complete reply always contains it. */
function readStreamOptions(value: unknown, isStream: boolean, found: Findings): boolean {
  if (value === undefined) return false;
  if (!isStream) {
    found.ignored.add("stream_options");
    return false;
  }
  const known = ["include_usage", "include_obfuscation"];
  const given = members(value, known, "stream_options.", found);
  if (!given) {
    found.violations.push({ field: "stream_options", message: "must be an object" });
    return false;
  }
  const { include_usage = false, include_obfuscation = false } = given;
  if (include_obfuscation !== false) found.ignored.add("stream_options.include_obfuscation");
  if (typeof include_usage === "boolean") return include_usage;
  const field = "stream_options.include_usage";
  found.violations.push({ field, message: "must be true or false" });
  return false;
}

/** Fields of a `CompleteRequest` whose names in OpenAI's JSON differ in more than case. */
const RENAMED: readonly (readonly [RegExp, string])[] = [
  [/^maxTokens$/, "max_completion_tokens"],
  [
    /^(messages\[\d+\])\.parts(\[\d+\])\.image\.(?:url|data|mediaType)$/,
    "$1.content$2.image_url.url",
  ],
  [/^(messages\[\d+\])\.parts(\[\d+\])\.image\b/, "$1.content$2.image_url"],
  [/^(messages\[\d+\])\.parts(\[\d+\])\.part$/, "$1.content$2"],
  [/^(messages\[\d+\])\.parts\b/, "$1.content"],
  [/^(messages\[\d+\]\.toolCalls\[\d+\])\.(name|arguments)$/, "$1.function.$2"],
  [/\.thoughtSignature$/, ".extra_content.google.thought_signature"],
  [/^(tools\[\d+\])\.parametersJson\b/, "$1.function.parameters"],
  [/^(tools\[\d+\])\.(name|description|strict)$/, "$1.function.$2"],
  [/^toolChoice\.mode$/, "tool_choice"],
  [/^toolChoice\.name$/, "tool_choice.function.name"],
  [/^responseFormat\.schemaJson\b/, "response_format.json_schema.schema"],
  [/^responseFormat\.(name|description|strict)$/, "response_format.json_schema.$1"],
];

/** The path in OpenAI's JSON of a field of a `CompleteRequest`, given by its JSON path. */
export const openAiPath = (path: string): string =>
  RENAMED.reduce((renamed, [ours, theirs]) => renamed.replace(ours, theirs), path).replace(
    /[A-Z]/g,
    (letter) => `_${letter.toLowerCase()}`,
  );
