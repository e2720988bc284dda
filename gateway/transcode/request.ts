import { create, type DescField, ScalarType } from "@bufbuild/protobuf";
import type { FastifyRequest } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  checkJson,
  FORMAT_BOUNDS,
  hasInvalidEscape,
  type JsonBounds,
} from "../../services/platform/rpc/check-json.ts";
import { ServiceError, type Violation } from "../../services/platform/rpc/errors.ts";
import { parseExactly } from "../../services/platform/rpc/exact-json.ts";
import type { FormattedCall, HttpFormat } from "../formats/format.ts";
import type { HttpBinding } from "./binding.ts";
import { NOT_JSON } from "./errors.ts";
import { isObject, readFields } from "./fields.ts";

/** Bounds of a body in our own format. */
const BOUNDS: JsonBounds = { values: 250_000 };
type Parse = (text: string) => unknown;
const EMPTY_OBJECT = Buffer.from("{}");
const NO_BODY = { json: {}, hasInvalidText: false };
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^";\s]*)/i;
const utf8 = new TextDecoder("utf-8", { fatal: true });
const unsupported = (message: string) => new ServiceError(Reason.UNSUPPORTED_MEDIA_TYPE, message);
const malformed = (message: string) => new ServiceError(Reason.MALFORMED_REQUEST, message);
const DECIMAL = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;

/**
 * Builds a method's request message from path, query, body and cookies; each field has one source.
 * A field with a type error gets its zero value; the services report type errors together with
 * violated constraints.
 * @throws ServiceError MALFORMED_REQUEST, UNSUPPORTED_MEDIA_TYPE
 */
export function readRequest(rule: HttpBinding, request: FastifyRequest) {
  const { method, pathFields, queryFields, bodyFields } = rule;
  const typeErrors: Violation[] = [];
  const init: Record<string, unknown> = {};
  const read = (fields: DescField[], json: object) =>
    Object.assign(init, readFields(fields, json, "", typeErrors));
  const body = bodyMembers(request, bodyFields !== undefined, BOUNDS);
  if (bodyFields) read(bodyFields, body.json);
  if (pathFields.length > 0) read(pathFields, request.params as object);
  if (queryFields.length > 0)
    read(queryFields, queryMembers(queryFields, request.raw.url ?? "", typeErrors));
  for (const { field, token } of request.tokenCookies ?? []) init[field.localName] = token;
  if (typeErrors.length === 0) checkText(body); // in a key, or in a field that is ignored
  return { message: create(method.input, init), typeErrors };
}

/**
 * Reads a request body in a foreign format.
 * @throws ServiceError MALFORMED_REQUEST, UNSUPPORTED_MEDIA_TYPE, VALIDATION_FAILED
 */
export function readFormatted(
  format: HttpFormat,
  { method }: Pick<HttpBinding, "method">,
  request: FastifyRequest,
): FormattedCall {
  const body = bodyMembers(request, true, FORMAT_BOUNDS, parseExactly);
  if (!format.takesBytes) checkText(body);
  const bytes = request.body instanceof Uint8Array ? request.body : EMPTY_OBJECT;
  return format.read({ json: body.json, body: bytes, headers: request.headers }, method);
}

function checkText({ hasInvalidText }: { hasInvalidText: boolean }): void {
  if (hasInvalidText)
    throw malformed("The body must not contain NUL characters or lone surrogates.");
}

/** The message for a request of which only the path can be read. */
export function readPathFields({ method, pathFields }: HttpBinding, { params }: FastifyRequest) {
  return create(method.input, readFields(pathFields, params as object, "", []));
}

/**
 * Parses a request body as JSON, more strictly than `JSON.parse`: valid UTF-8, no duplicate keys,
 * limited depth and size. Decoded text can only contain NUL characters and lone surrogates as
 * escapes.
 * @throws ServiceError MALFORMED_REQUEST; the message never quotes the text, which may contain a
 * password
 */
function parseJson(
  bytes: Uint8Array,
  bounds: JsonBounds,
  parse: Parse,
): { json: unknown; hasInvalidText: boolean } {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw malformed("The body is not valid UTF-8.");
  }
  let json: unknown;
  let hasDuplicates: boolean;
  try {
    hasDuplicates = checkJson(text, bounds);
    json = parse(text);
  } catch (error) {
    throw error instanceof ServiceError ? error : malformed("The body is not valid JSON.");
  }
  if (hasDuplicates) throw malformed("The body contains a duplicate key.");
  return { json, hasInvalidText: hasInvalidEscape(text) };
}

function bodyMembers(
  { headers, body }: FastifyRequest,
  isRead: boolean,
  bounds: JsonBounds,
  parse: Parse = JSON.parse,
) {
  if (!(body instanceof Uint8Array) || body.length === 0) return NO_BODY;
  const type = headers["content-type"];
  const isJson =
    type !== undefined &&
    JSON_TYPE.test(type) &&
    /^(?:utf-?8)?$/i.test(CHARSET.exec(type)?.[1] ?? "");
  const isPlain = (headers["content-encoding"] ?? "identity") === "identity";
  if (!isPlain) throw unsupported("The body must be sent uncompressed.");
  if (!(isJson || (type === undefined && !isRead))) throw unsupported(NOT_JSON);
  const { json, hasInvalidText } = parseJson(body, bounds, parse);
  if (isObject(json)) return { json, hasInvalidText };
  if (!isRead) return NO_BODY; // some clients send `null` instead of an empty body
  throw malformed("The body must be a JSON object.");
}

/**
 * Parses query parameters as JSON values according to their field types. A value that cannot be
 * parsed remains text, which is then reported as a type error.
 */
function queryMembers(fields: DescField[], url: string, violations: Violation[]): object {
  const members: Record<string, unknown> = {};
  const given = parseQuery(url);
  for (const field of fields) {
    const values = given.getAll(field.jsonName).map((text) => fromText(field.scalar, text));
    if (values.length === 0) continue;
    if (field.fieldKind === "list") members[field.jsonName] = values;
    else if (values.length === 1) members[field.jsonName] = values[0];
    else violations.push({ field: field.jsonName, message: "must be given only once" });
  }
  return members;
}

function fromText(type: ScalarType | undefined, text: string): unknown {
  if (type === undefined || type === ScalarType.STRING) return text;
  if (type === ScalarType.BOOL) return text === "true" ? true : text === "false" ? false : text;
  return DECIMAL.test(text) ? Number(text) : text;
}

function parseQuery(url: string): URLSearchParams {
  const [, query = ""] = /\?(.*)/s.exec(url) ?? [];
  try {
    decodeURIComponent(query); // URLSearchParams accepts invalid percent-encoding
  } catch {
    throw malformed("The query is not valid percent-encoded UTF-8.");
  }
  return new URLSearchParams(query);
}
