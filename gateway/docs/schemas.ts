import type { DescEnumValue, DescField, DescMessage, DescMethod, DescService } from "@bufbuild/protobuf";
import { getExtension, getOption, hasExtension, ScalarType } from "@bufbuild/protobuf";
import type { FieldRules, StringRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { field as validation } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { comments } from "../../gen/comments.ts";
import {
  email_address,
  new_password,
  person_name,
  presented_password,
  presented_secret,
} from "../../gen/gatehouse/platform/v1/rules_pb.ts";

/** A JSON Schema (draft 2020-12), as OpenAPI 3.1 takes it. */
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

/** What our own string rules mean, as far as a schema can say it. */
const ownRules = [
  [email_address, { format: "email", maxLength: 254 }],
  [person_name, { minLength: 1, maxLength: 100 }],
  [new_password, { format: "password", minLength: 8, maxLength: 128 }],
  [presented_secret, { minLength: 1, maxLength: 4096 }],
  [presented_password, { format: "password", minLength: 1, maxLength: 128 }],
] as const;

const FIELD_NAME = /`[a-z]+(?:_[a-z]+)+`/g;

/** What the proto says about a service, a message, a field, a method or a value, with fields by their JSON names. */
export function commentOn(desc: DescService | DescMessage | DescField | DescMethod | DescEnumValue): string {
  const comment = comments["typeName" in desc ? desc.typeName : `${desc.parent?.typeName}.${desc.name}`] ?? "";
  return comment.replace(FIELD_NAME, (name) => name.replace(/_./g, ([, c = ""]) => c.toUpperCase()));
}

/** The schema of a field; messages are named in `used`, to be described once. */
export function fieldSchema(field: DescField, used: Set<DescMessage>): Schema {
  const rules = getOption(field, validation);
  if (field.fieldKind === "list") {
    const { minItems, maxItems } = rules.type.case === "repeated" ? rules.type.value : {};
    return { type: "array", items: itemSchema(field, undefined, used), ...present({ minItems, maxItems }) };
  }
  return itemSchema(field, rules, used);
}

/** The schema of a message, of these fields of it, by their JSON names. */
export function objectSchema(fields: readonly DescField[], used: Set<DescMessage>): Schema {
  const properties = Object.fromEntries(
    fields.map((field) => [field.jsonName, { ...fieldSchema(field, used), description: commentOn(field) }]),
  );
  const required = fields.filter((f) => !f.proto.proto3Optional).map((f) => f.jsonName);
  return { type: "object", properties, ...(required.length > 0 ? { required } : {}) };
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
  return { ...scalars[field.scalar as ScalarType], ...constraints(rules) };
}

function constraints(rules: FieldRules | undefined): Schema {
  switch (rules?.type.case) {
    case "string":
      return stringConstraints(rules.type.value);
    case "int32":
    case "uint32":
    case "double": {
      const { greaterThan, lessThan } = rules.type.value;
      const minimum = greaterThan.case === "gte" ? greaterThan.value : undefined;
      const maximum = lessThan.case === "lte" ? lessThan.value : undefined;
      return present({ minimum, maximum });
    }
    default:
      return {};
  }
}

function stringConstraints(rules: StringRules): Schema {
  const own = ownRules.filter(([extension]) => hasExtension(rules, extension) && getExtension(rules, extension));
  const set = <T>(name: "minLen" | "maxLen", value: T) => (Object.hasOwn(rules, name) ? Number(value) : undefined);
  return Object.assign(
    present({ minLength: set("minLen", rules.minLen), maxLength: set("maxLen", rules.maxLen) }),
    rules.in.length > 0 ? { enum: rules.in } : {},
    rules.wellKnown.case === "uuid" ? { format: "uuid" } : {},
    ...own.map(([, schema]) => schema),
  );
}

const present = (facts: Schema): Schema =>
  Object.fromEntries(
    Object.entries(facts)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, typeof value === "bigint" ? Number(value) : value]),
  );
