import { STATUS_CODES } from "node:http";
import type { DescEnumValue, DescMessage } from "@bufbuild/protobuf";
import type { HttpBinding } from "../../../gateway/transcode/binding.ts";
import {
  FailureSchema,
  Reason,
  ReasonSchema,
} from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access, ApiKeys, CookieClearing } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { reasonName, statuses, statusOf } from "../../../services/platform/rpc/errors.ts";
import type { Schema } from "./components.ts";
import { commentOn, fieldSchema, json, property } from "./components.ts";
import { anyOtherFormatted, formattedFailures, formattedMethod } from "./formats.ts";

const ERROR_REF = { $ref: "#/components/schemas/Error" };

/** The response of any status that a route does not list. */
export const anyOther = (isLimited: boolean, format?: HttpBinding["format"]) => ({
  ...(format
    ? anyOtherFormatted(format)
    : json("Any other error.", ERROR_REF, exampleOf(Reason.UNSPECIFIED))),
  headers: headersOfOther(isLimited, format !== undefined),
});

/** The body of every error, with all values of its `code`. */
export const errorSchema = (used: Set<DescMessage>): Schema => ({
  type: "object",
  description: "The body of every error.",
  required: ["statusCode", "message", "error", "code"],
  properties: {
    statusCode: property("statusCode", { type: "integer" }, "HTTP status."),
    message: property("message", { type: "string" }, "Human-readable message. Do not parse it."),
    error: property("error", { type: "string" }, "HTTP status text."),
    code: property("code", codeSchema([...statuses.keys()])),
    violations: {
      ...fieldSchema(FailureSchema.field.violations, used),
      description: "Every invalid field. Absent for other errors.",
    },
  },
});

/** The errors by status. */
export function failures(binding: HttpBinding, isLimited: boolean) {
  const reasons = reasonsOf(binding, isLimited);
  return binding.format ? formattedFailures(binding, reasons) : responsesOf(reasons);
}

/** The errors that the binding of a method implies, and those that its operation returns. */
function reasonsOf(binding: HttpBinding, isLimited: boolean): Reason[] {
  const { method, policy, httpMethod, pathFields, queryFields, bodyFields = [] } = binding;
  const hasFields = pathFields.length + queryFields.length + bodyFields.length > 0;
  const areEvents = method.methodKind !== "unary" && !binding.format;
  return [
    ...(hasFields ? [Reason.VALIDATION_FAILED] : []),
    Reason.MALFORMED_REQUEST,
    ...(httpMethod === "GET" ? [] : [Reason.PAYLOAD_TOO_LARGE, Reason.UNSUPPORTED_MEDIA_TYPE]), // a body is read even if the method needs none
    ...(policy.access === Access.PUBLIC ? [] : [Reason.UNAUTHENTICATED]),
    ...(policy.access === Access.ADMIN ? [Reason.FORBIDDEN, Reason.MFA_REQUIRED] : []),
    ...(policy.access !== Access.PUBLIC && policy.apiKeys === ApiKeys.UNSPECIFIED
      ? [Reason.KEY_NOT_ALLOWED]
      : []),
    ...(policy.forbidImpersonation ? [Reason.IMPERSONATING] : []),
    ...(policy.sameOrigin ? [Reason.CROSS_SITE] : []),
    ...(policy.lockout ? [Reason.ACCOUNT_LOCKED] : []),
    ...(isLimited ? [Reason.RATE_LIMITED, Reason.TOO_MANY_CONCURRENT] : []),
    ...policy.refusals.filter((reason) => !areEvents || !isOfProvider(reason)),
  ];
}

/** Failures of a provider, which streams report as events. */
const isOfProvider = (reason: Reason) => [422, 500].includes(statusOf(reason).status);

/** The responses for these reasons, by status. */
export function responsesOf(reasons: readonly Reason[]) {
  const byStatus = Object.groupBy(reasons, (reason) => statusOf(reason).status);
  return Object.entries(byStatus).map(([status, group = []]) => {
    const { description, ...code } = codeSchema(group);
    // client generators ignore it next to a $ref
    const schema = { allOf: [ERROR_REF, { type: "object", properties: { code } }] };
    return [status, json(description, schema, exampleOf(group[0] as Reason))] as const;
  });
}

/** A `code` that is one of these reasons, with their descriptions. */
function codeSchema(reasons: readonly Reason[]) {
  const names = reasons.map(reasonName);
  const meanings = reasons.map((reason, i) => `\`${names[i]}\`: ${commentOn(descOf(reason))}`);
  return { type: "string", enum: names, description: meanings.join(" ") };
}

const descOf = (reason: Reason) => ReasonSchema.value[reason] as DescEnumValue;

function exampleOf(reason: Reason): object {
  const { status: statusCode, name: code } = statusOf(reason);
  const error = {
    statusCode,
    message: commentOn(descOf(reason)),
    error: STATUS_CODES[statusCode],
    code,
  };
  if (reason !== Reason.VALIDATION_FAILED) return error;
  return { ...error, violations: [{ field: "email", message: "must be a valid e-mail address" }] };
}

const header = (example: string | number, description: string) => ({
  description,
  schema: { type: typeof example === "string" ? "string" : "integer", examples: [example] },
});

/** The response headers that programs read, by name. */
export const headers = {
  "X-Request-Id": header(
    "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "Id of the request, as in the log: the id that the client sent, or a new one.",
  ),
  "RateLimit-Limit": header(100, "Maximum number of requests per window."),
  "RateLimit-Remaining": header(99, "Requests left in the current window."),
  "RateLimit-Reset": header(60, "Seconds until the current window ends."),
  "Retry-After": header(60, "Seconds to wait before a retry."),
  "X-AI-Ignored": header(
    "temperature",
    "Fields of the request that the AI model ignores, such as `temperature`.",
  ),
  "X-Budget-Limit": header(
    "20",
    "Limit of the caller's budget with the smallest share left: money in the currency of the catalogue, or tokens.",
  ),
  "X-Budget-Remaining": header("7.5", "What is left of that budget."),
  "X-Budget-Reset": header(86_400, "Seconds until that budget resets."),
  "X-AI-Provider": header("provider-a", "Id of the provider of the reply."),
  "X-AI-Model": header("model-a-1", "Name of the model of the reply."),
  "X-Should-Retry": header("false", "Always `false`: the same request would fail again."),
  "WWW-Authenticate": header("Bearer", "Always `Bearer`."),
  "Set-Cookie": header(
    "refreshToken=eyJhbGciOiJFZERTQSJ9.e30.c2ln; Path=/auth; HttpOnly; SameSite=Strict",
    "Sets or clears the refresh token, or sets the cookie `device`.",
  ),
};

const LIMIT = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
/** Statuses of errors after which a retry helps. */
const PASSING = [423, 429, 503];

/** Headers that refusals by budgets and failures of providers have too. */
const isOfBudget = (name: string) => name.startsWith("X-Budget-");

/** Whether a status may be that of a call which was admitted or refused by its budgets. */
const isOfCall = (status: number, format: HttpBinding["format"]) =>
  status === 429 || status >= 500 || (status === 400 && format !== undefined);

/** References to the headers that a response of this status may have. */
export function headersOf(binding: HttpBinding, status: number, isLimited: boolean) {
  const { policy, responseCookies, format } = binding;
  const isSuccess = status === policy.successStatus;
  const clears =
    policy.clearsCookie ===
    (isSuccess ? CookieClearing.ON_SUCCESS : CookieClearing.ON_UNAUTHENTICATED);
  const touchesCookie =
    (clears && (isSuccess || status === 401)) || (isSuccess && responseCookies.length > 0);
  return references([
    "X-Request-Id",
    ...(isLimited ? LIMIT : []),
    ...(PASSING.includes(status) ? ["Retry-After"] : []),
    ...(status === 401 ? ["WWW-Authenticate"] : []),
    ...(touchesCookie ? ["Set-Cookie"] : []),
    ...policy.responseHeaders.filter(
      (name) => isSuccess || (isOfCall(status, format) && isOfBudget(name)),
    ),
    ...(isSuccess && format ? formattedMethod(binding).headers : []),
    ...(!isSuccess && format ? ["X-Should-Retry"] : []),
  ]);
}

/** References to the headers of a response without a documented status. */
const headersOfOther = (isLimited: boolean, isFormatted: boolean) =>
  references([
    "X-Request-Id",
    ...(isLimited ? LIMIT : []),
    "Retry-After",
    ...(isFormatted ? ["X-Should-Retry"] : []),
  ]);

/** References to headers by their names. */
export const references = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
