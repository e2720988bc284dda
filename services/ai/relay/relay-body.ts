import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { checkJson, FORMAT_BOUNDS } from "../../platform/rpc/check-json.ts";
import { invalidFields, ServiceError, type Violation } from "../../platform/rpc/errors.ts";
import type { RelayApi } from "../providers/provider.ts";
import { isJsonObject, type Json } from "./json.ts";
import { messagesRefusals } from "./messages-refusals.ts";
import { responsesRefusals } from "./responses-refusals.ts";

/** The parts of a relayed body that the gateway reads. */
export type RelayBody = {
  text: string;
  /** Name of the model or alias. */
  model: string;
  isStream: boolean;
  /** Maximum number of output tokens, if it has one. */
  maxTokens: number | undefined;
  /** Size of the text that the model reads. */
  characters: number;
  images: number;
  /** Number of files that are not plain text, such as PDFs. */
  files: number;
  /** Size of these files in base64. */
  fileCharacters: number;
};

/** The fields that the APIs have under their own names. */
const MAX_TOKENS_FIELDS: Readonly<Record<RelayApi, string | undefined>> = {
  messages: "max_tokens",
  count_tokens: undefined,
  responses: "max_output_tokens",
};

/** The field of an API that limits the output. */
export const maxTokensFieldOf = (api: RelayApi): string | undefined => MAX_TOKENS_FIELDS[api];

const REFUSALS: Readonly<Record<RelayApi, (body: Json) => Violation[]>> = {
  messages: messagesRefusals,
  count_tokens: messagesRefusals,
  responses: responsesRefusals,
};

/** Maximum length of the name of a model, as of `CompleteRequest.model`. */
const MAX_NAME = 193;

const utf8 = new TextDecoder("utf-8", { fatal: true });
const malformed = (message: string) => new ServiceError(Reason.MALFORMED_REQUEST, message);

/**
 * Reads a body that will be passed on, and rejects fields that would reach data of other users or
 * have a cost without a bound.
 * @throws ServiceError MALFORMED_REQUEST, VALIDATION_FAILED
 */
export function readRelayBody(api: RelayApi, bytes: Uint8Array): RelayBody {
  const { text, json } = parse(bytes);
  const { model, stream } = json;
  const field = maxTokensFieldOf(api);
  const maxTokens = field === undefined ? undefined : json[field];
  const violations: Violation[] = [];
  if (typeof model !== "string" || model === "" || model.length > MAX_NAME)
    violations.push({ field: "model", message: `must be a name with 1 to ${MAX_NAME} characters` });
  if (stream !== undefined && stream !== null && typeof stream !== "boolean")
    violations.push({ field: "stream", message: "must be true or false" });
  const isCount = typeof maxTokens === "number" && Number.isInteger(maxTokens) && maxTokens > 0;
  if (field !== undefined && maxTokens !== undefined && maxTokens !== null && !isCount)
    violations.push({ field, message: "must be a positive whole number" });
  violations.push(...REFUSALS[api](json));
  if (violations.length > 0) throw invalidFields(violations);
  return {
    text,
    model: model as string,
    isStream: stream === true,
    maxTokens: isCount ? maxTokens : undefined,
    characters: charactersIn(json),
    images: sumIn(json, (object) => (isImage(object) ? 1 : 0)),
    files: sumIn(json, (object) => (isFile(object) ? 1 : 0)),
    fileCharacters: sumIn(json, (object) => (isFile(object) ? sizeOf(object) : 0)),
  };
}

function parse(bytes: Uint8Array): { text: string; json: Json } {
  let text: string;
  let json: unknown;
  let hasDuplicates: boolean;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw malformed("The body is not valid UTF-8.");
  }
  try {
    hasDuplicates = checkJson(text, FORMAT_BOUNDS);
    json = JSON.parse(text);
  } catch (error) {
    throw error instanceof ServiceError ? error : malformed("The body is not valid JSON.");
  }
  if (hasDuplicates) throw malformed("The body contains a duplicate key.");
  if (!isJsonObject(json)) throw malformed("The body must be a JSON object.");
  return { text, json };
}

const isImage = ({ type }: Json) => type === "image" || type === "input_image";

/** Kinds of document sources that contain plain text. */
const PLAIN_SOURCES: ReadonlySet<unknown> = new Set(["text", "content"]);

const isFile = ({ type, source, file_data }: Json) =>
  (type === "input_file" && typeof file_data === "string") ||
  (type === "document" && isJsonObject(source) && !PLAIN_SOURCES.has(source.type));

const sizeOf = ({ source, file_data }: Json) => {
  const data = isJsonObject(source) ? source.data : file_data;
  return typeof data === "string" ? data.length : 0;
};

/** The sum of the numbers that the objects in a value have. */
function sumIn(value: unknown, numberOf: (object: Json) => number): number {
  if (typeof value !== "object" || value === null) return 0;
  const own = isJsonObject(value) ? numberOf(value) : 0;
  return Object.values(value).reduce((sum: number, each) => sum + sumIn(each, numberOf), own);
}

/** Members whose text models do not read: content in base64, markers and encrypted reasoning. */
const UNREAD: ReadonlySet<string> = new Set([
  "data",
  "file_data",
  "signature",
  "encrypted_content",
]);

/** Number of characters of all texts in a value, apart from content in base64. */
function charactersIn(value: unknown): number {
  if (typeof value === "string") return value.startsWith("data:") ? 0 : value.length;
  if (Array.isArray(value)) return value.reduce((sum: number, each) => sum + charactersIn(each), 0);
  if (!isJsonObject(value)) return 0;
  return Object.entries(value).reduce(
    (sum, [name, member]) =>
      UNREAD.has(name) && typeof member === "string"
        ? sum
        : sum + name.length + charactersIn(member),
    0,
  );
}
