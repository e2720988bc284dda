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
import { maxBodyBytes } from "../../services/platform/policy.ts";
import { isQueryField, unreadableField } from "./fields.ts";

/** A field whose value is a cookie. */
export type CookieField = { cookie: string; field: DescField };

/** The HTTP mapping of one RPC. Read at start from the options of its descriptor. */
export type HttpBinding = {
  method: DescMethodUnary | DescMethodServerStreaming; // HTTP and JSON have no client streams
  policy: Policy;
  httpMethod: "GET" | "PUT" | "POST" | "DELETE";
  /** Route pattern, with path variables as `:jsonName`. */
  path: string;
  pathFields: DescField[];
  queryFields: DescField[];
  /** Fields read from the JSON body; undefined for a method without a body. */
  bodyFields: DescField[] | undefined;
  requestCookies: CookieField[];
  responseCookies: CookieField[];
  /** The field that is the whole response body; undefined: all fields are. */
  responseField: DescField | undefined;
  successStatus: number;
  maxBodyBytes: number;
  /** Whether requests from other sites are rejected: the method is public and uses a cookie. */
  csrfProtected: boolean;
};

const SEGMENT = /^(?:[A-Za-z0-9._~-]+|\{([a-z0-9_]+)\})$/;
const COOKIE_NAME = /^[A-Za-z0-9_-]+$/;
const httpMethods = { get: "GET", put: "PUT", post: "POST", delete: "DELETE" } as const;

/**
 * Reads the HTTP mapping of a method.
 * @throws Error naming the method and all its options that the gateway does not support
 */
export function readBinding(method: DescMethod): HttpBinding {
  const rule = getOption(method, http);
  const rules = getOption(method, policy);
  const httpMethod = httpMethods[rule.pattern.case as keyof typeof httpMethods];
  const template = httpMethod ? (rule.pattern.value as string) : "/";
  const [requestCookies, responseCookies] = [cookieFields(method.input), cookieFields(method.output)];
  const { path, pathFields, pathProblems } = readPath(template, method.input);
  const taken = new Set([...pathFields, ...requestCookies.map(({ field }) => field)]);
  const free = method.input.fields.filter((field) => !taken.has(field));
  const hasBody = rule.body !== "";
  const responseField = method.output.fields.find(({ name }) => name === rule.responseBody);
  const binding = {
    method: method as HttpBinding["method"],
    policy: rules,
    httpMethod,
    path,
    pathFields,
    queryFields: hasBody ? [] : free,
    bodyFields: hasBody ? free : undefined,
    requestCookies,
    responseCookies,
    responseField,
    successStatus: rules.successStatus || 200,
    maxBodyBytes: maxBodyBytes(rules),
    csrfProtected: rules.access === Access.PUBLIC && requestCookies.length > 0,
  };
  const problems = [
    !["unary", "server_streaming"].includes(method.methodKind) && `${method.methodKind} methods are not supported`,
    !hasOption(method, http) && "it has no google.api.http rule",
    !httpMethod && `an HTTP rule of kind ${rule.pattern.case ?? "nothing"} is not supported`,
    rule.additionalBindings.length > 0 && "additional_bindings are not supported",
    rule.selector !== "" && "a selector is not supported",
    rule.responseBody !== "" && !responseField && `response_body ${rule.responseBody} names no response field`,
    hasBody && rule.body !== "*" && `body "${rule.body}" is not supported: only "*" or none`,
    hasBody && ["GET", "DELETE"].includes(httpMethod) && `a ${httpMethod} can't have a body`,
    ...pathProblems,
    ...[...requestCookies, ...responseCookies].flatMap(cookieProblems),
    ...free.map((field) => unreadableField(field)),
    ...binding.queryFields.map((field) => !isQueryField(field) && `field ${field.name} can't be given in a query`),
    ...policyProblems(binding),
  ].filter((problem) => typeof problem === "string");
  if (problems.length > 0) throw new Error(`${method.parent.typeName}.${method.name}: ${problems.join("; ")}`);
  return binding;
}

function policyProblems(binding: HttpBinding) {
  const { method, policy: rules, successStatus, requestCookies, responseCookies, responseField } = binding;
  const isStream = method.methodKind === "server_streaming";
  const isSameForAll = rules.access === Access.PUBLIC && method.input.fields.length === 0;
  const clearsCookie = rules.clearsCookie !== CookieClearing.UNSPECIFIED;
  return [
    rules.access === Access.UNSPECIFIED && "its policy names no access rule",
    (successStatus < 200 || successStatus > 299) && `success_status ${successStatus} is not a success`,
    rules.maxAgeSeconds > 0 && !isSameForAll && "max_age_seconds: its response is not the same for everybody",
    clearsCookie && requestCookies.length === 0 && "clears_cookie names no cookie: no request field has one",
    isStream && successStatus !== 200 && "an event stream always starts with status 200",
    isStream && (clearsCookie || responseCookies.length > 0) && "an event stream can't set or clear a cookie",
    isStream && responseField && "an event stream can't have a response_body",
  ];
}

function readPath(template: string, input: DescMessage) {
  const pathFields: DescField[] = [];
  const pathProblems: string[] = [];
  if (!template.startsWith("/")) pathProblems.push(`path ${template} does not start with a slash`);
  const segments = template
    .slice(1)
    .split("/")
    .map((segment) => {
      const match = SEGMENT.exec(segment);
      if (!match) pathProblems.push(`segment "${segment}" of path ${template} is not supported`);
      const name = match?.[1];
      if (name === undefined) return `/${segment}`;
      const field = input.fields.find((candidate) => candidate.name === name);
      if (!field) pathProblems.push(`path variable ${name} names no request field`);
      else if (!isPlainString(field)) pathProblems.push(`path variable ${name} is not a plain string field`);
      else if (pathFields.includes(field)) pathProblems.push(`path variable ${name} appears twice`);
      else pathFields.push(field);
      return `/:${field?.jsonName}`;
    });
  return { path: segments.join(""), pathFields, pathProblems };
}

const isPlainString = (field: DescField) =>
  field.fieldKind === "scalar" && field.scalar === ScalarType.STRING && !field.oneof;

function cookieFields({ fields }: DescMessage): CookieField[] {
  return fields
    .map((field) => ({ cookie: getOption(field, fieldPolicy).cookie, field }))
    .filter(({ cookie }) => cookie !== "");
}

const cookieProblems = ({ cookie, field }: CookieField) => [
  !COOKIE_NAME.test(cookie) && `"${cookie}" is no name for a cookie`,
  !isPlainString(field) && `cookie field ${field.name} is not a plain string field`,
];
