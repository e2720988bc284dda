import type { DescField, DescMessage, MessageShape } from "@bufbuild/protobuf";
import { create, ScalarType } from "@bufbuild/protobuf";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError, type Violation } from "../../services/platform/errors.ts";
import type { HttpBinding } from "./binding.ts";
import { isObject, readFields } from "./fields.ts";
import { hasInvalidText, parseJson } from "./json.ts";

/** The parts of a request, as received. */
export type Incoming = {
  /** Path and query. */
  url: string;
  /** Path variables, decoded. */
  params: Record<string, string>;
  headers: {
    "content-type"?: string | undefined;
    "content-encoding"?: string | undefined;
  };
  /** The value of a cookie, empty without one. */
  readCookie(name: string): string;
  body: Uint8Array | undefined;
};

const NO_BODY = { json: {}, hasEscapes: false };
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^";\s]*)/i;
const DECIMAL = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;

/** The message of a request. A field with a type error has its zero value. */
export type ReadRequest = { message: MessageShape<DescMessage>; typeErrors: Violation[] };

/**
 * Builds the request message of a method from path, query, body and cookies; each field has one source. The services report
 * its type errors together with broken constraints.
 * @throws ServiceError MALFORMED_REQUEST, UNSUPPORTED_MEDIA_TYPE
 */
export function readRequest(rule: HttpBinding, incoming: Incoming): ReadRequest {
  const { method, pathFields, queryFields, bodyFields, requestCookies } = rule;
  const typeErrors: Violation[] = [];
  const init: Record<string, unknown> = {};
  const read = (fields: DescField[], json: object) => Object.assign(init, readFields(fields, json, "", typeErrors));
  const body = bodyMembers(incoming, bodyFields !== undefined);
  if (bodyFields) read(bodyFields, body.json);
  if (pathFields.length > 0) read(pathFields, incoming.params);
  if (queryFields.length > 0) read(queryFields, queryMembers(queryFields, incoming.url, typeErrors));
  for (const { cookie, field } of requestCookies) {
    init[field.localName] = incoming.readCookie(cookie);
  }
  if (typeErrors.length === 0 && body.hasEscapes && hasInvalidText(body.json)) {
    // in a key or in a field that is not read
    throw new ServiceError(Reason.MALFORMED_REQUEST, "The body must not contain NUL characters or lone surrogates.");
  }
  return { message: create(method.input, init), typeErrors };
}

/** The message of a request of which nothing but the path can be read. */
export function readPathFields({ method, pathFields }: HttpBinding, params: Record<string, string>) {
  return create(method.input, readFields(pathFields, params, "", []));
}

type Body = { json: object; hasEscapes: boolean };

function bodyMembers({ headers, body }: Incoming, isRead: boolean): Body {
  if (body === undefined || body.length === 0) return NO_BODY;
  const type = headers["content-type"];
  const isJson = type !== undefined && JSON_TYPE.test(type) && /^(?:utf-?8)?$/i.test(CHARSET.exec(type)?.[1] ?? "");
  const isPlain = (headers["content-encoding"] ?? "identity") === "identity";
  if (!isPlain) throw new ServiceError(Reason.UNSUPPORTED_MEDIA_TYPE, "The body must be sent uncompressed.");
  if (!(isJson || (type === undefined && !isRead))) {
    throw new ServiceError(Reason.UNSUPPORTED_MEDIA_TYPE, "The body must be sent as Content-Type: application/json.");
  }
  return jsonMembers(body, isRead);
}

function jsonMembers(body: Uint8Array, isRead: boolean): Body {
  const { json, hasEscapes } = parseJson(body);
  if (isObject(json)) return { json, hasEscapes };
  if (!isRead) return NO_BODY; // some clients send `null` instead of no body
  throw new ServiceError(Reason.MALFORMED_REQUEST, "The body must be a JSON object.");
}

/** Reads query parameters as JSON values by the types of their fields. A value that does not parse stays text. */
function queryMembers(fields: DescField[], url: string, violations: Violation[]): object {
  const members: Record<string, unknown> = {};
  const given = parseQuery(url);
  for (const field of fields) {
    const values = given.get(field.jsonName);
    if (!values) continue;
    if (field.fieldKind === "list") members[field.jsonName] = values.map((text) => fromText(field.scalar, text));
    else if (values.length === 1) members[field.jsonName] = fromText(field.scalar, values[0] as string);
    else violations.push({ field: field.jsonName, message: "must be given only once" });
  }
  return members;
}

function fromText(type: ScalarType | undefined, text: string): unknown {
  if (type === undefined || type === ScalarType.STRING) return text;
  if (type === ScalarType.BOOL) return text === "true" ? true : text === "false" ? false : text;
  return DECIMAL.test(text) ? Number(text) : text;
}

function parseQuery(url: string): Map<string, string[]> {
  const given = new Map<string, string[]>();
  const start = url.indexOf("?") + 1;
  if (start === 0) return given;
  for (const pair of url.slice(start).split("&")) {
    if (pair === "") continue;
    const at = pair.includes("=") ? pair.indexOf("=") : pair.length;
    const name = decodeQuery(pair.slice(0, at));
    const values = given.get(name) ?? [];
    values.push(decodeQuery(pair.slice(at + 1)));
    given.set(name, values);
  }
  return given;
}

function decodeQuery(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw new ServiceError(Reason.MALFORMED_REQUEST, "The query is not valid percent-encoded UTF-8.");
  }
}
