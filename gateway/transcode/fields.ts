import { type DescField, type DescMessage, fromJson, getOption, ScalarType } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import type { Violation } from "../../services/platform/errors.ts";
import { remembered } from "../../services/platform/policy.ts";
import { maxItems, tooManyItems } from "../../services/platform/validation.ts";

/** The initializer of a message, keyed by local name. */
type Init = Record<string, unknown>;
type Read = { value: unknown } | { problem: string };

/** Bounds of the number types that are read. 64-bit numbers are not: ProtoJSON writes them as strings. */
const ranges = new Map<ScalarType, { min: number; max: number }>([
  [ScalarType.INT32, { min: -(2 ** 31), max: 2 ** 31 - 1 }],
  [ScalarType.UINT32, { min: 0, max: 2 ** 32 - 1 }],
]);

const isTimestamp = (message: DescMessage) => message.typeName === TimestampSchema.typeName;

/**
 * Reads fields from a JSON object without coercing types. `null` counts as absent, unknown keys are ignored.
 * A missing field is reported by its constraints, and here if it has none.
 * A field of a wrong type is added to `violations` and holds its zero value in the result.
 */
export function readFields(fields: DescField[], json: object, at: string, violations: Violation[]): Init {
  const init: Init = {};
  for (const field of fields) {
    const value = Object.hasOwn(json, field.jsonName) ? (json as Init)[field.jsonName] : null;
    if (value === null) {
      if (isRequired(field)) violations.push({ field: at + field.jsonName, message: "must be given" });
      continue;
    }
    init[field.localName] = readField(field, value, at + field.jsonName, violations);
  }
  return init;
}

function readField(field: DescField, value: unknown, path: string, violations: Violation[]): unknown {
  if (field.fieldKind !== "list") return readItem(field, value, path, violations);
  if (!Array.isArray(value)) {
    violations.push({ field: path, message: "must be a list" });
    return [];
  }
  if (value.length > maxItems(field)) {
    violations.push({ field: path, message: tooManyItems(field) }); // its items are not read
    return [];
  }
  return value.map((item, i) => readItem(field, item, `${path}[${i}]`, violations));
}

/** Whether a field is required although no constraint rejects its zero value. */
const isRequired = remembered((field: DescField): boolean => {
  const rules = getOption(field, fieldRules);
  const isFree = rules.type.case === undefined && !rules.cel.length && !rules.celExpression.length && !rules.required;
  return isFree && field.fieldKind === "scalar" && !field.proto.proto3Optional;
});

function readItem(field: DescField, value: unknown, path: string, violations: Violation[]): unknown {
  const message = field.message;
  if (message && !isTimestamp(message)) {
    if (isObject(value)) return readFields(message.fields, value, `${path}.`, violations);
    violations.push({ field: path, message: "must be an object" });
    return {};
  }
  const read = message ? readTimestamp(value) : readScalar(field, value);
  if ("value" in read) return read.value;
  violations.push({ field: path, message: read.problem });
  return message ? {} : zero(field.scalar as ScalarType);
}

function readScalar(field: DescField, value: unknown): Read {
  switch (field.scalar) {
    case ScalarType.STRING:
      if (typeof value !== "string") return { problem: "must be a string" };
      if (value.includes("\0")) return { problem: "must not contain NUL characters" };
      return value.isWellFormed() ? { value } : { problem: "must not contain lone surrogates" };
    case ScalarType.BOOL:
      return typeof value === "boolean" ? { value } : { problem: "must be true or false" };
    case ScalarType.DOUBLE:
      // 1e999 parses as Infinity
      return typeof value === "number" && Number.isFinite(value) ? { value } : { problem: "must be a number" };
    default:
      return readInteger(field, value);
  }
}

function readInteger(field: DescField, value: unknown): Read {
  if (!Number.isInteger(value)) return { problem: "must be a whole number" };
  const { min, max } = ranges.get(field.scalar as ScalarType) as { min: number; max: number };
  if ((value as number) >= min && (value as number) <= max) return { value };
  const { type } = getOption(field, fieldRules);
  const { greaterThan, lessThan } = type.case === "int32" || type.case === "uint32" ? type.value : {};
  return { problem: `must be between ${greaterThan?.value ?? min} and ${lessThan?.value ?? max}` };
}

function readTimestamp(value: unknown): Read {
  const problem = "must be a date and time such as 2026-01-31T12:00:00Z";
  if (typeof value !== "string") return { problem };
  try {
    const day = value.slice(0, 10);
    const isDay = new Date(day).toISOString().startsWith(day); // 30 February would be read as 2 March
    return isDay ? { value: fromJson(TimestampSchema, value) } : { problem };
  } catch {
    return { problem }; // the decoder's message quotes the value
  }
}

const zero = (type: ScalarType) => (type === ScalarType.STRING ? "" : type === ScalarType.BOOL ? false : 0);

/** Whether a JSON value is an object, not a list and not null. */
export const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);
