import type { DescField, DescMessage, MessageShape } from "@bufbuild/protobuf";
import { create, createRegistry, ScalarType } from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import { createValidator } from "@bufbuild/protovalidate";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { file_gatehouse_platform_v1_rules } from "../../gen/gatehouse/platform/v1/rules_pb.ts";
import { readCookie } from "./cookies.ts";
import { Refused } from "./errors.ts";
import type { Problem } from "./fields.ts";
import { isObject, readFields } from "./fields.ts";
import { hasBrokenText, MalformedJson, parseJson } from "./json.ts";
import type { Rule } from "./rules.ts";

/** What a request carries, as it came over the wire. */
export type Incoming = {
  /** Path and query. */
  url: string;
  /** Path variables, decoded. */
  params: Record<string, string>;
  headers: {
    "content-type"?: string | undefined;
    "content-encoding"?: string | undefined;
    cookie?: string | undefined;
  };
  body: Uint8Array | undefined;
};

const NO_BODY = { json: {}, suspect: false };
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^";\s]*)/i;
const DECIMAL = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;

/** Problems of one request that are told of. */
const MAX_TOLD = 50;
/** Problems that the sentence for people names. */
const MAX_NAMED = 10;

const validator = createValidator({ registry: createRegistry(file_gatehouse_platform_v1_rules) });

/** Compiles every rule, which takes half a second, so that no caller has to wait for it. */
export function warmUp(rules: readonly Rule[]): void {
  for (const { method } of rules) validator.validate(method.input, create(method.input));
}

/**
 * Builds the request message of a method from path, query, body and cookies; each field has exactly one source.
 * Types alone are checked here. Where one is wrong the field rules are checked as well, so that the caller is told of
 * every problem at once; otherwise that is left to the services, which look at the caller and the limits first.
 * @throws Refused MALFORMED_REQUEST, VALIDATION_FAILED, UNSUPPORTED_MEDIA_TYPE
 */
export function readRequest(rule: Rule, incoming: Incoming): MessageShape<DescMessage> {
  const { method, pathFields, queryFields, bodyFields, requestCookies } = rule;
  const problems: Problem[] = [];
  const init: Record<string, unknown> = {};
  const read = (fields: DescField[], json: object) => Object.assign(init, readFields(fields, json, "", problems));
  const body = bodyMembers(incoming, bodyFields !== undefined);
  if (bodyFields) read(bodyFields, body.json);
  if (pathFields.length > 0) read(pathFields, incoming.params);
  if (queryFields.length > 0) read(queryFields, queryMembers(queryFields, incoming.url, problems));
  for (const { cookie, field } of requestCookies) {
    init[field.localName] = readCookie(incoming.headers.cookie, cookie) ?? "";
  }
  const message = create(method.input, init);
  if (problems.length > 0) {
    const told = withRules(method.input, message, problems);
    throw new Refused(Reason.VALIDATION_FAILED, sentenceOf(told), told);
  }
  if (body.suspect && hasBrokenText(body.json)) {
    // in a key or in a field that is not read
    throw new Refused(Reason.MALFORMED_REQUEST, "The body must not contain NUL characters or lone surrogates.");
  }
  return message;
}

/** What can be read of a request whose other parts can't: the fields that its path names. */
export function readPath(
  { method, pathFields }: Rule,
  { params }: Pick<Incoming, "params">,
): MessageShape<DescMessage> {
  return create(method.input, readFields(pathFields, params, "", []));
}

type Body = { json: object; suspect: boolean };

function bodyMembers({ headers, body }: Incoming, isRead: boolean): Body {
  if (body === undefined || body.length === 0) return NO_BODY;
  const type = headers["content-type"];
  const isJson = type !== undefined && JSON_TYPE.test(type) && /^(?:utf-?8)?$/i.test(CHARSET.exec(type)?.[1] ?? "");
  const isPlain = (headers["content-encoding"] ?? "identity") === "identity";
  if (!isPlain) throw new Refused(Reason.UNSUPPORTED_MEDIA_TYPE, "The body must be sent uncompressed.");
  if (!(isJson || (type === undefined && !isRead))) {
    throw new Refused(Reason.UNSUPPORTED_MEDIA_TYPE, "The body must be sent as Content-Type: application/json.");
  }
  return jsonMembers(body, isRead);
}

function jsonMembers(body: Uint8Array, isRead: boolean): Body {
  try {
    const { json, suspect } = parseJson(body);
    if (isObject(json)) return { json, suspect };
    if (!isRead) return NO_BODY; // some clients send `null` for want of a body
    throw new MalformedJson("The body must be a JSON object.");
  } catch (thrown) {
    if (thrown instanceof MalformedJson) throw new Refused(Reason.MALFORMED_REQUEST, thrown.message);
    throw thrown;
  }
}

/** Reads query parameters as JSON values by the types of their fields; what does not parse stays text and is told later. */
function queryMembers(fields: DescField[], url: string, problems: Problem[]): object {
  const members: Record<string, unknown> = {};
  const given = parseQuery(url);
  for (const field of fields) {
    const values = given.get(field.jsonName);
    if (!values) continue;
    if (field.fieldKind === "list") members[field.jsonName] = values.map((text) => fromText(field.scalar, text));
    else if (values.length === 1) members[field.jsonName] = fromText(field.scalar, values[0] as string);
    else problems.push({ field: field.jsonName, message: "must be given only once" });
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
    throw new Refused(Reason.MALFORMED_REQUEST, "The query is not valid percent-encoded UTF-8.");
  }
}

/** The problems in a sentence, worded as the services word theirs. */
function sentenceOf(problems: Problem[]): string {
  const named = problems.slice(0, MAX_NAMED).map(({ field, message }) => `${field} ${message}`);
  const more = problems.length - named.length;
  return `Invalid request: ${[...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ")}.`;
}

/** Adds what the field rules say of the other fields. A rule of the whole message names its field by its id. */
function withRules(schema: DescMessage, message: MessageShape<DescMessage>, problems: Problem[]): Problem[] {
  const told = new Set(problems.map((p) => p.field));
  const isTold = (field: string) =>
    [...field.matchAll(/(?=[.[])|$/g)].some(({ index }) => told.has(field.slice(0, index)));
  const violations = validator.validate(schema, message).violations ?? [];
  const others = violations
    .map(({ field, ruleId, message }) => ({
      field: field.length > 0 ? jsonPath(field) : jsonName(schema, ruleId),
      message,
    }))
    .filter(({ field }) => !isTold(field));
  return [...problems, ...others].slice(0, MAX_TOLD);
}

const jsonName = (schema: DescMessage, name: string) => schema.fields.find((f) => f.name === name)?.jsonName ?? name;

function jsonPath(path: Path): string {
  return path.reduce((text, step) => {
    if (step.kind === "list_sub") return `${text}[${step.index}]`;
    if (step.kind === "map_sub") return `${text}[${JSON.stringify(step.key)}]`;
    const name = step.kind === "field" ? step.jsonName : step.name;
    return text === "" ? name : `${text}.${name}`;
  }, "");
}
