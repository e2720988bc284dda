import type {
  CompleteRequest,
  Image,
  Message,
  ResponseFormat,
  ToolCall,
} from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { depthOf } from "../platform/rpc/check-json.ts";
import type { Violation } from "../platform/rpc/errors.ts";
import { isBlank } from "./blank-text.ts";
import { charactersIn } from "./characters.ts";
import { readCallId } from "./providers/call-ids.ts";

/** Maximum size of all text of a request, in characters. */
export const MAX_CHARACTERS = 4_000_000;
const MAX_IMAGES = 16;
/** Maximum nesting depth of a JSON Schema and of the arguments of a tool call. */
const MAX_DEPTH = 64;

/** Checks what the constraints of single fields cannot express. Independent of the model. */
export function checkCompletion(request: CompleteRequest): Violation[] {
  const { messages } = request;
  return [
    ...faultsIn("messages", sizeFault(request) ?? conversationFault(messages)),
    ...messages.flatMap(checkMessage),
    ...checkResults(messages),
    ...checkTools(request),
    ...(request.responseFormat ? checkFormat(request.responseFormat) : []),
  ];
}

const faultsIn = (field: string, message: string | undefined): Violation[] =>
  message === undefined ? [] : [{ field, message }];

/** All text that a model reads. */
export const textsOf = ({ messages, tools, responseFormat }: CompleteRequest): string[] => [
  ...messages.flatMap(({ parts, toolCalls }) => [
    ...parts.map(({ part }) => (part.case === "text" ? part.value : "")),
    ...toolCalls.flatMap((call) => [call.name, call.arguments]),
  ]),
  ...tools.flatMap(({ name, description = "", parametersJson = "" }) => [
    name,
    description,
    parametersJson,
  ]),
  responseFormat?.schemaJson ?? "",
  responseFormat?.description ?? "",
];

function sizeFault(request: CompleteRequest): string | undefined {
  const images = request.messages.flatMap(imagesOf).length;
  if (images > MAX_IMAGES) return `must contain at most ${MAX_IMAGES} images`;
  if (charactersIn(textsOf(request), MAX_CHARACTERS) > MAX_CHARACTERS)
    return `must contain at most ${MAX_CHARACTERS} characters, with tools and schemas`;
  return undefined;
}

const imagesOf = ({ parts }: Message): Image[] =>
  parts.flatMap(({ part }) => (part.case === "image" ? [part.value] : []));

function conversationFault(messages: readonly Message[]): string | undefined {
  const isShown = ({ role, parts }: Message) =>
    role === "tool" ||
    (role === "user" &&
      parts.some(({ part }) => part.case === "image" || !isBlank(part.value ?? "")));
  return messages.some(isShown)
    ? undefined
    : "must contain a message of the role user that is not blank";
}

function checkMessage(message: Message, index: number): Violation[] {
  const { role, toolCalls, toolCallId } = message;
  const path = `messages[${index}]`;
  const images = imagesOf(message);
  const isUser = role === "user";
  return [
    ...faultsIn(
      `${path}.parts`,
      !isUser && images.length > 0 ? "must contain images only with the role user" : undefined,
    ),
    ...message.parts.flatMap(({ part }, at) =>
      part.case === "image" ? faultsIn(`${path}.parts[${at}].image`, imageFault(part.value)) : [],
    ),
    ...faultsIn(
      `${path}.toolCalls`,
      role !== "assistant" && toolCalls.length > 0
        ? "is allowed only with the role assistant"
        : undefined,
    ),
    ...faultsIn(
      `${path}.toolCallId`,
      role !== "tool" && toolCallId !== "" ? "is allowed only with the role tool" : undefined,
    ),
    ...toolCalls.flatMap((call, at) =>
      faultsIn(`${path}.toolCalls[${at}].arguments`, argumentsFault(call)),
    ),
  ];
}

function imageFault({ data, mediaType, url }: Image): string | undefined {
  if ((data === "") === (url === "")) return "must have either data or url";
  if (data === "") return undefined;
  if (mediaType === "") return "must have the media type of its data";
  return BASE64.test(data) ? undefined : "must have data in base64";
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

const argumentsFault = ({ arguments: json }: ToolCall) =>
  isBlank(json) ? undefined : objectFault(json);

/** What is wrong with a text that should be a JSON object. */
function objectFault(json: string): string | undefined {
  const wrong = "must be a JSON object";
  if (depthOf(json) > MAX_DEPTH) return `must be nested at most ${MAX_DEPTH} deep`;
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? undefined : wrong;
  } catch {
    return wrong;
  }
}

/**
 * Checks that the results of tool calls follow their calls. Providers reject other conversations,
 * each with words of its own.
 */
function checkResults(messages: readonly Message[]): Violation[] {
  const open = new Set<string>();
  const violations: Violation[] = [];
  for (const [index, { role, toolCalls, toolCallId }] of messages.entries()) {
    const path = `messages[${index}]`;
    if (role === "tool") {
      if (!open.delete(readCallId(toolCallId).id)) {
        const message = "must be the id of an earlier tool call that has no result yet";
        violations.push({ field: `${path}.toolCallId`, message });
      }
      continue;
    }
    if (open.size > 0) {
      const message = "must be tool until every earlier tool call has a result";
      violations.push({ field: `${path}.role`, message });
      open.clear();
    }
    for (const [at, { id }] of toolCalls.entries()) {
      const message = "must be unique in its message";
      const callId = readCallId(id).id;
      if (open.has(callId)) violations.push({ field: `${path}.toolCalls[${at}].id`, message });
      open.add(callId);
    }
  }
  const isIncomplete = open.size > 0;
  if (isIncomplete) {
    const message = "must contain a result for every tool call";
    violations.push({ field: "messages", message });
  }
  return violations;
}

function checkTools({ tools, toolChoice }: CompleteRequest): Violation[] {
  const names = new Set<string>();
  const violations = tools.flatMap(({ name, parametersJson }, index) => {
    const path = `tools[${index}]`;
    const isRepeated = names.has(name);
    names.add(name);
    return [
      ...faultsIn(`${path}.name`, isRepeated ? "must be unique" : undefined),
      ...faultsIn(
        `${path}.parametersJson`,
        parametersJson === undefined ? undefined : objectFault(parametersJson),
      ),
    ];
  });
  return [...violations, ...faultsIn("toolChoice", choiceFault(toolChoice, names))];
}

function choiceFault(
  choice: CompleteRequest["toolChoice"],
  names: ReadonlySet<string>,
): string | undefined {
  if (!choice) return undefined;
  const { mode, name } = choice;
  if (mode === "function" && !names.has(name)) return "must name one of the tools";
  if (mode !== "function" && name !== "") return "must have a name only with the mode function";
  return mode === "required" && names.size === 0 ? "must be none or auto without tools" : undefined;
}

function checkFormat({ type, name, description, schemaJson, strict }: ResponseFormat): Violation[] {
  if (type === "json_schema")
    return [
      ...faultsIn("responseFormat.name", name === "" ? "must not be empty" : undefined),
      ...faultsIn("responseFormat.schemaJson", objectFault(schemaJson)),
    ];
  const isPlain =
    name === "" && schemaJson === "" && description === undefined && strict === undefined;
  return faultsIn(
    "responseFormat",
    isPlain ? undefined : "must have a schema only with the type json_schema",
  );
}
