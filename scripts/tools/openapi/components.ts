import type {
  DescEnumValue,
  DescField,
  DescMessage,
  DescMethod,
  DescService,
} from "@bufbuild/protobuf";
import { getExtension, getOption, hasExtension, ScalarType } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import type {
  FieldRules,
  StringRules,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { field as validation } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { comments } from "../../../gen/comments.ts";
import { field as fieldPolicy } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import {
  email_address,
  list_cursor,
  new_password,
  person_name,
  presented_password,
  presented_secret,
} from "../../../gen/gatehouse/platform/v1/rules_pb.ts";
import { services } from "../../../services/platform/rpc/policy.ts";
import { scalarExample } from "./examples.ts";

/** A JSON Schema (draft 2020-12), as in OpenAPI 3.1. */
export type Schema = Record<string, unknown>;

/**
 * A response, or a request's body, in JSON. Without an example it is composed of those of the
 * fields.
 */
export const json = (description: string, schema: Schema, example?: unknown) => ({
  description,
  content: { "application/json": { schema, example } },
});

/** The schema of a scalar field with its example. */
export function property(name: string, schema: Schema, description?: string): Schema {
  const example = scalarExample(name, schema);
  return {
    ...schema,
    description: description ?? schema.description,
    examples: example === undefined ? undefined : [example],
  };
}

const scalars: Partial<Record<ScalarType, Schema>> = {
  [ScalarType.STRING]: { type: "string" },
  [ScalarType.BOOL]: { type: "boolean" },
  [ScalarType.DOUBLE]: { type: "number" },
  [ScalarType.INT32]: { type: "integer", format: "int32" },
  [ScalarType.UINT32]: { type: "integer", minimum: 0 },
};

/** Messages that are one value in JSON. */
const WELL_KNOWN: Record<string, Schema> = {
  "google.protobuf.Timestamp": { type: "string", format: "date-time" },
  "google.protobuf.Struct": { type: "object", additionalProperties: true },
};

/** Our own string rules, as far as a schema can express them. */
const ownRules = [
  [email_address, { format: "email", maxLength: 254 }],
  [person_name, { minLength: 1, maxLength: 100 }],
  [new_password, { format: "password", minLength: 8, maxLength: 128 }],
  [presented_secret, { minLength: 1, maxLength: 4096 }],
  [presented_password, { format: "password", minLength: 1, maxLength: 128 }],
  [list_cursor, { minLength: 28, maxLength: 28 }],
] as const;

/** JSON names of all fields of the contract, by their names in it. */
const jsonNames = new Map(
  services
    .flatMap(({ file }) => [file, ...file.dependencies])
    .flatMap((file) => [...nestedTypes(file)])
    .flatMap((type) => (type.kind === "message" ? type.fields : []))
    .map(({ name, jsonName }) => [name, jsonName]),
);
const NAME = /`([a-z]+(?:_[a-z]+)+)`/g;

/**
 * The proto comment of a service, message, field, method or value, with fields by their JSON names.
 * Other names, such as those of values, stay as they are.
 */
export function commentOn(
  desc: DescService | DescMessage | DescField | DescMethod | DescEnumValue,
): string {
  const comment =
    comments["typeName" in desc ? desc.typeName : `${desc.parent?.typeName}.${desc.name}`] ?? "";
  return comment.replace(NAME, (_, name: string) => `\`${jsonNames.get(name) ?? name}\``);
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

/**
 * The schema of a message with these fields, by their JSON names.
 * @param isOptional which of them may be absent
 */
export function objectSchema(
  fields: readonly DescField[],
  used: Set<DescMessage>,
  isOptional = isNeverImplied,
): Schema {
  const properties = Object.fromEntries(
    fields.map((field) => [
      field.jsonName,
      { ...fieldSchema(field, used), description: commentOn(field) },
    ]),
  );
  const required = fields.filter((field) => !isOptional(field)).map((field) => field.jsonName);
  return { type: "object", properties, required: required.length > 0 ? required : undefined };
}

/**
 * Whether a field may be omitted because no value is implied. Callers without a password omit their
 * own.
 */
const isNeverImplied = (field: DescField): boolean => {
  const { ownPassword, omitEmpty } = getOption(field, fieldPolicy);
  return field.proto.proto3Optional || ownPassword || omitEmpty;
};

/** Whether a request may omit a field, which includes lists that may be empty. */
export function isOptionalInRequest(field: DescField): boolean {
  if (field.fieldKind !== "list") return isNeverImplied(field);
  const { type } = getOption(field, validation);
  return type.case !== "repeated" || type.value.minItems === 0n;
}

/**
 * Optional fields of a usual request. Further ones would change more than a reader of the example
 * expects.
 */
const USUAL = new Set(["code", "name", "password", "reason"]);

/** An example of a request body with these fields. */
export const bodyExample = (fields: readonly DescField[]) =>
  exampleOf(fields.filter((field) => !isOptionalInRequest(field) || USUAL.has(field.jsonName)));

function exampleOf(fields: readonly DescField[]): Record<string, unknown> {
  return Object.fromEntries(
    fields.map((field) => {
      const { examples } = itemSchema(field, getOption(field, validation), new Set()) as {
        examples?: unknown[];
      };
      const item = examples ? examples[0] : exampleOf(field.message?.fields ?? []);
      return [field.jsonName, field.fieldKind === "list" ? [item] : item];
    }),
  );
}

function itemSchema(
  field: DescField,
  rules: FieldRules | undefined,
  used: Set<DescMessage>,
): Schema {
  const { message, jsonName } = field;
  if (message && !WELL_KNOWN[message.typeName]) {
    used.add(message);
    return { $ref: `#/components/schemas/${message.name}` };
  }
  if (message) return property(jsonName, WELL_KNOWN[message.typeName] as Schema);
  if (field.enum)
    return property(jsonName, {
      type: "string",
      enum: field.enum.values.map((value) => value.jsonName),
    });
  const type = getOption(field, fieldPolicy).decimal
    ? DECIMAL
    : scalars[field.scalar as ScalarType];
  return property(jsonName, { ...type, ...constraints(rules) });
}

/** A decimal as text. A number is read too. */
const DECIMAL: Schema = { type: ["string", "number"] };

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
  const own = ownRules.filter(
    ([extension]) => hasExtension(rules, extension) && getExtension(rules, extension),
  );
  const general = {
    minLength: given(rules, "minLen"),
    maxLength: given(rules, "maxLen"),
    enum: rules.in.length > 0 ? rules.in : undefined,
    format: rules.wellKnown.case === "uuid" ? "uuid" : undefined,
  };
  return Object.assign(general, ...own.map(([, schema]) => schema));
}

/** The number of a rule; undefined if the rule is not set, which JSON omits. */
const given = <K extends string>(
  rules: { [N in K]: bigint } | undefined,
  name: K,
): number | undefined => (rules && Object.hasOwn(rules, name) ? Number(rules[name]) : undefined);
