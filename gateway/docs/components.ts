import type { DescEnumValue, DescField, DescMessage, DescMethod, DescService } from "@bufbuild/protobuf";
import { getExtension, getOption, hasExtension, ScalarType } from "@bufbuild/protobuf";
import type { FieldRules, StringRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { field as validation } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { comments } from "../../gen/comments.ts";
import { CookieClearing } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import {
  email_address,
  new_password,
  person_name,
  presented_password,
  presented_secret,
} from "../../gen/gatehouse/platform/v1/rules_pb.ts";
import type { HttpBinding } from "../transcode/binding.ts";

/** A JSON Schema (draft 2020-12), as in OpenAPI 3.1. */
export type Schema = Record<string, unknown>;

/** A response, or a request's body, in JSON. */
export const json = (description: string, schema: Schema) => ({
  description,
  content: { "application/json": { schema } },
});

const scalars: Partial<Record<ScalarType, Schema>> = {
  [ScalarType.STRING]: { type: "string" },
  [ScalarType.BOOL]: { type: "boolean" },
  [ScalarType.DOUBLE]: { type: "number" },
  [ScalarType.INT32]: { type: "integer", format: "int32" },
  [ScalarType.UINT32]: { type: "integer", minimum: 0 },
};

/** Our own string rules, as far as a schema can express them. */
const ownRules = [
  [email_address, { format: "email", maxLength: 254 }],
  [person_name, { minLength: 1, maxLength: 100 }],
  [new_password, { format: "password", minLength: 8, maxLength: 128 }],
  [presented_secret, { minLength: 1, maxLength: 4096 }],
  [presented_password, { format: "password", minLength: 1, maxLength: 128 }],
] as const;

const FIELD_NAME = /`[a-z]+(?:_[a-z]+)+`/g;

/** The proto comment of a service, message, field, method or value, with fields by their JSON names. */
export function commentOn(desc: DescService | DescMessage | DescField | DescMethod | DescEnumValue): string {
  const comment = comments["typeName" in desc ? desc.typeName : `${desc.parent?.typeName}.${desc.name}`] ?? "";
  return comment.replace(FIELD_NAME, (name) => name.replace(/_./g, ([, c = ""]) => c.toUpperCase()));
}

/** The schema of a field. Its messages are added to `used`, so that each is described once. */
export function fieldSchema(field: DescField, used: Set<DescMessage>): Schema {
  const rules = getOption(field, validation);
  if (field.fieldKind === "list") {
    const bounds = rules.type.case === "repeated" ? rules.type.value : undefined;
    const [minItems, maxItems] = [given(bounds, "minItems"), given(bounds, "maxItems")];
    return { type: "array", items: itemSchema(field, undefined, used), minItems, maxItems };
  }
  return itemSchema(field, rules, used);
}

/** The schema of a message with these fields, by their JSON names. */
export function objectSchema(fields: readonly DescField[], used: Set<DescMessage>): Schema {
  const properties = Object.fromEntries(
    fields.map((field) => [field.jsonName, { ...fieldSchema(field, used), description: commentOn(field) }]),
  );
  const required = fields.filter((f) => !f.proto.proto3Optional).map((f) => f.jsonName);
  return { type: "object", properties, required: required.length > 0 ? required : undefined };
}

function itemSchema(field: DescField, rules: FieldRules | undefined, used: Set<DescMessage>): Schema {
  const { message } = field;
  if (message?.typeName === "google.protobuf.Timestamp") return { type: "string", format: "date-time" };
  if (message?.typeName === "google.protobuf.Struct") return { type: "object", additionalProperties: true };
  if (message) {
    used.add(message);
    return { $ref: `#/components/schemas/${message.name}` };
  }
  if (field.enum) return { type: "string", enum: field.enum.values.map((value) => value.jsonName) };
  return Object.assign({}, scalars[field.scalar as ScalarType], constraints(rules));
}

function constraints(rules: FieldRules | undefined): Schema {
  switch (rules?.type.case) {
    case "string":
      return stringConstraints(rules.type.value);
    case "int32":
    case "uint32":
    case "double": {
      const { greaterThan, lessThan } = rules.type.value;
      return {
        minimum: greaterThan.case === "gte" ? greaterThan.value : undefined,
        maximum: lessThan.case === "lte" ? lessThan.value : undefined,
      };
    }
    default:
      return {};
  }
}

function stringConstraints(rules: StringRules): Schema {
  const own = ownRules.filter(([extension]) => hasExtension(rules, extension) && getExtension(rules, extension));
  const general = {
    minLength: given(rules, "minLen"),
    maxLength: given(rules, "maxLen"),
    enum: rules.in.length > 0 ? rules.in : undefined,
    format: rules.wellKnown.case === "uuid" ? "uuid" : undefined,
  };
  return Object.assign(general, ...own.map(([, schema]) => schema));
}

/** The number of a rule; undefined if the rule is not set, which JSON leaves out. */
const given = <K extends string>(rules: { [N in K]: bigint } | undefined, name: K): number | undefined =>
  rules && Object.hasOwn(rules, name) ? Number(rules[name]) : undefined;

const header = (type: "string" | "integer", description: string) => ({ description, schema: { type } });

/** The response headers that programs read, by name. */
export const headers = {
  "X-Request-Id": header("string", "Id of the request, as in the log: the id that the client sent, or a new one."),
  "RateLimit-Limit": header("integer", "Maximum number of requests per window."),
  "RateLimit-Remaining": header("integer", "Requests left in the current window."),
  "RateLimit-Reset": header("integer", "Seconds until the current window ends."),
  "Retry-After": header("integer", "Seconds to wait before a retry."),
  "X-AI-Ignored": header("string", "Given fields that the AI model takes no notice of, such as `temperature`."),
  "WWW-Authenticate": header("string", "Always `Bearer`."),
  "Set-Cookie": header("string", "Sets or clears the refresh token."),
};

const LIMIT = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
/** Statuses of errors after which a retry helps. */
const PASSING = [423, 429, 503];

/** References to the headers that a response of this status may have. */
export function headersOf({ policy, responseCookies, successStatus }: HttpBinding, status: number, isLimited: boolean) {
  const isSuccess = status === successStatus;
  const clears = policy.clearsCookie === (isSuccess ? CookieClearing.ON_SUCCESS : CookieClearing.ON_UNAUTHENTICATED);
  const touchesCookie = (clears && (isSuccess || status === 401)) || (isSuccess && responseCookies.length > 0);
  return references([
    "X-Request-Id",
    ...(isLimited ? LIMIT : []),
    ...(PASSING.includes(status) ? ["Retry-After"] : []),
    ...(status === 401 ? ["WWW-Authenticate"] : []),
    ...(touchesCookie ? ["Set-Cookie"] : []),
    ...(isSuccess ? policy.responseHeaders : []),
  ]);
}

/** References to the headers of a response without a documented status. */
export const headersOfOther = (isLimited: boolean) =>
  references(["X-Request-Id", ...(isLimited ? LIMIT : []), "Retry-After"]);

/** References to headers by their names. */
export const references = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
