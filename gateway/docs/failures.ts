import { STATUS_CODES } from "node:http";
import type { DescEnumValue, DescMessage } from "@bufbuild/protobuf";
import { FailureSchema, Reason, ReasonSchema } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { reasonName, statuses, statusOf } from "../../services/platform/errors.ts";
import type { HttpBinding } from "../transcode/binding.ts";
import type { Schema } from "./components.ts";
import { commentOn, fieldSchema, json, property } from "./components.ts";
import { headersOfOther } from "./response-headers.ts";

const ERROR_REF = { $ref: "#/components/schemas/Error" };

/** The response of any status that a route does not list. */
export const anyOther = (isLimited: boolean) => ({
  ...json("Any other error.", ERROR_REF, exampleOf(Reason.UNSPECIFIED)),
  headers: headersOfOther(isLimited),
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

/** The errors by status: those that the binding of the method implies, and those that its operation returns. */
export function failures(binding: HttpBinding, isLimited: boolean) {
  const { method, policy, httpMethod, pathFields, queryFields, bodyFields = [], csrfProtected } = binding;
  const hasFields = pathFields.length + queryFields.length + bodyFields.length > 0;
  return responsesOf([
    ...(hasFields ? [Reason.VALIDATION_FAILED] : []),
    Reason.MALFORMED_REQUEST,
    ...(httpMethod === "GET" ? [] : [Reason.PAYLOAD_TOO_LARGE, Reason.UNSUPPORTED_MEDIA_TYPE]), // a body is read even if the method needs none
    ...(policy.access === Access.PUBLIC ? [] : [Reason.UNAUTHENTICATED]),
    ...(policy.access === Access.ADMIN ? [Reason.FORBIDDEN, Reason.MFA_REQUIRED] : []),
    ...(policy.forbidImpersonation ? [Reason.IMPERSONATING] : []),
    ...(csrfProtected ? [Reason.CROSS_SITE] : []),
    ...(policy.lockout ? [Reason.ACCOUNT_LOCKED] : []),
    ...(isLimited ? [Reason.RATE_LIMITED, Reason.TOO_MANY_CONCURRENT] : []),
    ...(method.methodKind === "unary" ? policy.refusals : []), // errors of a stream are events
  ]);
}

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
  const error = { statusCode, message: commentOn(descOf(reason)), error: STATUS_CODES[statusCode], code };
  if (reason !== Reason.VALIDATION_FAILED) return error;
  return { ...error, violations: [{ field: "email", message: "must be a valid e-mail address" }] };
}
