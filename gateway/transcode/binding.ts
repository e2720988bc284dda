import type {
  DescField,
  DescMessage,
  DescMethod,
  DescMethodServerStreaming,
  DescMethodUnary,
} from "@bufbuild/protobuf";
import { getOption, hasOption, ScalarType } from "@bufbuild/protobuf";
import type { Policy } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { Access, CookieClearing, field as fieldPolicy, policy } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { http } from "../../gen/google/api/annotations_pb.ts";
import type { HttpRule } from "../../gen/google/api/http_pb.ts";
import { maxBodyBytes } from "../../services/platform/policy.ts";
import { assertReadable, isQueryField } from "./fields.ts";

export { DEFAULT_BODY_BYTES } from "../../services/platform/policy.ts";

/** A field that travels as a cookie. */
export type CookieField = { cookie: string; field: DescField };

/** How one RPC looks as HTTP: read once, at start, from the options of its descriptor. */
export type HttpBinding = {
  method: DescMethodUnary | DescMethodServerStreaming; // client streams have no place in HTTP/JSON
  policy: Policy;
  httpMethod: "GET" | "PUT" | "POST" | "DELETE";
  /** Route pattern, with path variables as `:jsonName`. */
  path: string;
  pathFields: DescField[];
  queryFields: DescField[];
  /** Fields read from the JSON body; undefined where the method takes none. */
  bodyFields: DescField[] | undefined;
  requestCookies: CookieField[];
  responseCookies: CookieField[];
  /** The field that is answered bare; undefined: the whole message. */
  responseField: DescField | undefined;
  successStatus: number;
  maxBodyBytes: number;
  /** A public method that acts on a cookie must not be reachable from another site. */
  csrfProtected: boolean;
};

const SEGMENT = /^(?:([A-Za-z0-9._~-]+)|\{([a-z0-9_]+)\})$/;
const COOKIE_NAME = /^[A-Za-z0-9_-]+$/;
const httpMethods = { get: "GET", put: "PUT", post: "POST", delete: "DELETE" } as const;

/**
 * Reads how a method looks as HTTP.
 * @throws Error naming the method and what its options ask for that the gateway does not do
 */
export function readBinding(method: DescMethod): HttpBinding {
  const refuse = (why: string): never => {
    throw new Error(`${method.parent.typeName}.${method.name}: ${why}`);
  };
  if (!isServed(method)) return refuse(`${method.methodKind} methods are not supported`);
  if (!hasOption(method, http)) return refuse("it has no google.api.http rule");
  const rule = getOption(method, http);
  const rules = getOption(method, policy);
  const httpMethod = readHttpMethod(rule, refuse);
  readPolicy(method, rules, refuse);
  const requestCookies = cookieFields(method.input, refuse);
  const { path, pathFields } = readPath(rule.pattern.value as string, method.input, refuse);
  const taken = new Set([...pathFields, ...requestCookies.map((c) => c.field)]);
  const free = method.input.fields.filter((f) => !taken.has(f));
  const hasBody = readBody(rule, httpMethod, refuse);
  for (const f of free) {
    assertReadable(f, refuse);
    if (!hasBody && !isQueryField(f)) refuse(`field ${f.name} can't be given in a query`);
  }
  if (rules.clearsCookie !== CookieClearing.UNSPECIFIED && requestCookies.length === 0) {
    refuse("clears_cookie names no cookie: no request field has one");
  }
  return {
    method,
    policy: rules,
    httpMethod,
    path,
    pathFields,
    queryFields: hasBody ? [] : free,
    bodyFields: hasBody ? free : undefined,
    requestCookies,
    responseCookies: cookieFields(method.output, refuse),
    responseField: readResponseBody(rule, method, refuse),
    successStatus: rules.successStatus || 200,
    maxBodyBytes: maxBodyBytes(rules),
    csrfProtected: rules.access === Access.PUBLIC && requestCookies.length > 0,
  };
}

const isServed = (method: DescMethod): method is HttpBinding["method"] =>
  method.methodKind === "unary" || method.methodKind === "server_streaming";

type Refuse = (why: string) => never;

function readHttpMethod(rule: HttpRule, refuse: Refuse): HttpBinding["httpMethod"] {
  if (rule.additionalBindings.length > 0) refuse("additional_bindings are not supported");
  if (rule.selector !== "") refuse("a selector is not supported");
  const kind = rule.pattern.case;
  if (kind === undefined || kind === "patch" || kind === "custom") {
    return refuse(`an HTTP rule of kind ${kind ?? "nothing"} is not supported`);
  }
  return httpMethods[kind];
}

function readPolicy(method: DescMethod, rules: Policy, refuse: Refuse): void {
  if (rules.access === Access.UNSPECIFIED) refuse("its policy names no access rule");
  const { successStatus } = rules;
  if (successStatus !== 0 && (successStatus < 200 || successStatus > 299)) {
    refuse(`success_status ${successStatus} is no success`);
  }
  const isOneAnswerForAll = rules.access === Access.PUBLIC && method.input.fields.length === 0;
  if (rules.maxAgeSeconds > 0 && !isOneAnswerForAll)
    refuse("max_age_seconds: its answer is not the same for everybody");
  if (method.methodKind !== "server_streaming") return;
  if (successStatus !== 0 && successStatus !== 200) refuse("an event stream always starts with status 200");
  if (cookieFields(method.output, refuse).length > 0) refuse("an event stream can't set a cookie");
  if (rules.clearsCookie !== CookieClearing.UNSPECIFIED) refuse("an event stream can't clear a cookie");
}

function readPath(template: string, input: DescMessage, refuse: Refuse): Pick<HttpBinding, "path" | "pathFields"> {
  if (!template.startsWith("/")) refuse(`path ${template} does not start with a slash`);
  const pathFields: DescField[] = [];
  const segments = template.slice(1).split("/");
  const path = segments.map((segment) => {
    const parts = SEGMENT.exec(segment) ?? refuse(`segment "${segment}" of path ${template} is not supported`);
    const name = parts[2];
    if (name === undefined) return `/${segment}`;
    const field = input.fields.find((f) => f.name === name) ?? refuse(`path variable ${name} names no request field`);
    if (field.fieldKind !== "scalar" || field.scalar !== ScalarType.STRING || field.oneof) {
      refuse(`path variable ${name} is not a plain string field`);
    }
    if (pathFields.includes(field)) refuse(`path variable ${name} appears twice`);
    pathFields.push(field);
    return `/:${field.jsonName}`;
  });
  return { path: path.join(""), pathFields };
}

function readBody(rule: HttpRule, httpMethod: HttpBinding["httpMethod"], refuse: Refuse): boolean {
  if (rule.body === "") return false;
  if (rule.body !== "*") refuse(`body "${rule.body}" is not supported: only "*" or none`);
  if (httpMethod === "GET" || httpMethod === "DELETE") refuse(`a ${httpMethod} can't have a body`);
  return true;
}

function readResponseBody(rule: HttpRule, method: DescMethod, refuse: Refuse): DescField | undefined {
  if (rule.responseBody === "") return undefined;
  if (method.methodKind === "server_streaming") refuse("an event stream can't have a response_body");
  const field = method.output.fields.find((f) => f.name === rule.responseBody);
  return field ?? refuse(`response_body ${rule.responseBody} names no response field`);
}

function cookieFields(message: DescMessage, refuse: Refuse): CookieField[] {
  return message.fields.flatMap((field) => {
    const { cookie } = getOption(field, fieldPolicy);
    if (cookie === "") return [];
    if (!COOKIE_NAME.test(cookie)) refuse(`"${cookie}" is no name for a cookie`);
    if (field.fieldKind !== "scalar" || field.scalar !== ScalarType.STRING || field.oneof) {
      refuse(`cookie field ${field.name} is not a plain string field`);
    }
    return [{ cookie, field }];
  });
}
