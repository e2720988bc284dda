import type { DescField, DescMessage, DescService } from "@bufbuild/protobuf";
import { type HttpBinding, readBinding } from "../../../gateway/transcode/binding.ts";
import type { Limit, Policy } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { Access, ApiKeys, LimitKey } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { version } from "../../../services/platform/process/version.ts";
import { clientMethods } from "../../../services/platform/rpc/policy.ts";
import { appConfigPaths } from "./app-config-schema.ts";
import type { Schema } from "./components.ts";
import {
  bodyExample,
  commentOn,
  fieldSchema,
  isOptionalInRequest,
  json,
  objectSchema,
} from "./components.ts";
import { anthropicErrorSchema, formattedMethod, openAiErrorSchema } from "./formats.ts";
import { healthPaths } from "./health-schema.ts";
import { anyOther, errorSchema, failures, headers, headersOf } from "./responses.ts";

const ABOUT = `Accounts, sessions, administration and AI chat.

**Sign in** with \`POST /auth/login\` and send the access token as \`Authorization: Bearer …\`. When a response is 401
\`UNAUTHENTICATED\`, get a new token with \`POST /auth/refresh\` and repeat the request once.

Programs call the AI routes with an **API key** instead: \`Authorization: Bearer sk-gate-…\`. Users create theirs with
\`POST /user/api-keys\`; administrators create those of service accounts.

**Errors** have a \`code\` for programs and a \`message\` for people. \`violations\` names every invalid field at once.

**Limits** are in the \`RateLimit-*\` headers. For 429 and 503, \`Retry-After\` says when to try again.

Responses omit fields without a value. In requests \`null\` means that the field is absent.`;
const EVENTS =
  'Server-sent events: `data: {"chunk": string}`, `data: {"error": string, "code": string}`, and `data: [DONE]` at the ' +
  "end. `code` is one of the codes of an error body, such as `PROVIDER_ERROR`. " +
  "Lines that begin with `:` keep the connection open; ignore them.";
const EVENTS_EXAMPLE = 'data: {"chunk":"Hello"}\n\ndata: {"chunk":"!"}\n\ndata: [DONE]\n\n';
const SCHEMES = {
  accessToken: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description:
      "Access token from login or refresh. After a 401 `UNAUTHENTICATED` refresh it and repeat the request once.",
  },
  apiKey: {
    type: "http",
    scheme: "bearer",
    description:
      "API key (`sk-gate-…`) from `POST /user/api-keys`, for AI routes. It needs no refresh: a 401 means that it is invalid, expired or revoked.",
  },
  refreshCookie: {
    type: "apiKey",
    in: "cookie",
    name: "refreshToken",
    description:
      "Set by the service, `HttpOnly`. Apps without cookies send the latest `refreshToken` as this cookie.",
  },
};

/** The gateway replaces it with the URL of the deployment. */
const PUBLIC_URL = "https://gatehouse.dev";

/** The OpenAPI document of all routes. */
export function openApiDocument() {
  const bindings = clientMethods().map(readBinding);
  const shared = sharedLimits(bindings);
  const used = new Set<DescMessage>();
  const paths: Record<string, Record<string, unknown>> = {};
  for (const binding of bindings) {
    const path = binding.path.replace(/:(\w+)/g, "{$1}");
    paths[path] ??= {};
    paths[path][binding.httpMethod.toLowerCase()] = operation(binding, used, shared);
  }
  const schemas: Record<string, Schema> = {
    Error: errorSchema(used),
    OpenAIError: openAiErrorSchema,
    AnthropicError: anthropicErrorSchema,
  };
  for (const message of used) {
    schemas[message.name] = {
      description: commentOn(message),
      ...objectSchema(message.fields, used),
    }; // adds messages to `used` while it is iterated
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Gatehouse",
      version,
      description: ABOUT,
      contact: { name: "Operator of this service", url: PUBLIC_URL },
      license: { name: "Proprietary", identifier: "LicenseRef-Proprietary" },
    },
    servers: [{ url: PUBLIC_URL }],
    tags: tagsOf(bindings),
    paths: { ...paths, ...appConfigPaths(anyOther(false)), ...healthPaths(anyOther(false)) },
    components: {
      schemas,
      headers,
      securitySchemes: SCHEMES,
    },
  };
}

const tagOf = ({ name }: DescService) => name.replace(/Service$/, "");

/** The services as tags: they group the operations. */
function tagsOf(bindings: readonly HttpBinding[]) {
  const services = new Set(bindings.map(({ method }) => method.parent));
  const described = [...services].map((service) => ({
    name: tagOf(service),
    description: commentOn(service),
  }));
  return [
    ...described,
    { name: "App", description: "What clients need to know before anybody signs in." },
    { name: "Health", description: "Health of the service and its dependencies." },
  ];
}

function operation(binding: HttpBinding, used: Set<DescMessage>, shared: ReadonlySet<string>) {
  const { method, policy, format, pathFields, queryFields, bodyFields, requestCookies } = binding;
  const parameter = (
    place: "path" | "query" | "cookie",
    field: DescField,
    name = field.jsonName,
  ) => ({
    name,
    in: place,
    required: place === "path",
    description: commentOn(field),
    schema: fieldSchema(field, used),
  });
  const isLimited = policy.limits.length > 0;
  const isOpen = policy.access === Access.PUBLIC;
  return {
    operationId: method.localName,
    tags: [tagOf(method.parent)],
    summary: titleOf(method.name),
    description: [
      format ? formattedMethod(binding).description : commentOn(method),
      access(policy),
      ...policy.limits.map((limit) => limitText(limit, shared)),
    ].join(" "),
    parameters: [
      ...pathFields.map((field) => parameter("path", field)),
      ...queryFields.map((field) => parameter("query", field)),
      // the refresh token of a public method is its security scheme
      ...requestCookies
        .filter(({ isOnly }) => isOnly || !isOpen)
        .map(({ field, cookie }) => parameter("cookie", field, cookie)),
    ],
    requestBody: format
      ? formattedMethod(binding).request
      : bodyFields && requestBody(commentOn(method.input), bodyFields, used),
    security: isOpen
      ? requestCookies.some(({ isOnly }) => !isOnly)
        ? [{ refreshCookie: [] }]
        : []
      : [{ accessToken: [] }, ...(takesKeys(policy) ? [{ apiKey: [] }] : [])],
    responses: { ...responses(binding, used, isLimited), default: anyOther(isLimited, format) },
    ...(policy.forbidImpersonation && { "x-forbid-impersonation": true }),
  };
}

/** The responses by status. */
function responses(binding: HttpBinding, used: Set<DescMessage>, isLimited: boolean) {
  const answers = [
    [String(binding.policy.successStatus), success(binding, used)] as const,
    ...failures(binding, isLimited),
  ];
  return Object.fromEntries(
    answers.map(([status, answer]) => [
      status,
      { ...answer, headers: headersOf(binding, Number(status), isLimited) },
    ]),
  );
}

function success(binding: HttpBinding, used: Set<DescMessage>) {
  if (binding.format) return formattedMethod(binding).success;
  if (binding.method.methodKind === "server_streaming") {
    return {
      description: EVENTS,
      content: { "text/event-stream": { schema: { type: "string" }, example: EVENTS_EXAMPLE } },
    };
  }
  const { responseField, method, hiddenFields, policy } = binding;
  if (policy.textType && responseField)
    return {
      description: commentOn(responseField),
      content: { [policy.textType]: { schema: { type: "string" } } },
    };
  const shown = method.output.fields.filter((field) => !hiddenFields.includes(field));
  return responseField
    ? json(commentOn(responseField), fieldSchema(responseField, used))
    : json(commentOn(method.output), objectSchema(shown, used));
}

/** A request body. It is optional if none of its fields is required. */
function requestBody(description: string, fields: readonly DescField[], used: Set<DescMessage>) {
  const schema = objectSchema(fields, used, isOptionalInRequest);
  return {
    ...json(description, schema, bodyExample(fields)),
    required: schema.required ? true : undefined,
  };
}

const takesKeys = ({ apiKeys }: Policy) => apiKeys !== ApiKeys.UNSPECIFIED;

function access(policy: Policy): string {
  if (policy.access === Access.PUBLIC) return "Requires no token.";
  if (policy.access === Access.ADMIN) return "Requires the access token of an administrator.";
  return takesKeys(policy)
    ? "Requires an access token or an API key."
    : "Requires an access token.";
}

/** The limits that several routes count towards, by their buckets. */
function sharedLimits(bindings: readonly HttpBinding[]): ReadonlySet<string> {
  const buckets = bindings.flatMap(({ policy }) => policy.limits.map(({ bucket }) => bucket));
  return new Set(buckets.filter((bucket, i) => buckets.indexOf(bucket) < i));
}

function limitText({ bucket, requests, windowSeconds, by }: Limit, shared: ReadonlySet<string>) {
  const whose =
    { [LimitKey.USER]: "user", [LimitKey.ADDRESS]: "address" }[by as number] ??
    "address and account";
  const most = `At most ${requests} requests in ${windowSeconds} seconds per ${whose}`;
  return shared.has(bucket)
    ? `${most}, together with the other routes of the limit \`${bucket}\`.`
    : `${most}.`;
}

/** Abbreviations in names of methods, as they are written in text. */
const ABBREVIATIONS: Record<string, string> = { mfa: "MFA", totp: "TOTP", setup: "set up" };

/** The title of a method in the API reference: SetupTotp becomes "Set up TOTP". */
function titleOf(name: string): string {
  const words = name.split(/(?<=[a-z])(?=[A-Z])/).map((word) => word.toLowerCase());
  const text = words.map((word) => ABBREVIATIONS[word] ?? word).join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
