import { type DescField, fromJson, getOption, ScalarType } from "@bufbuild/protobuf";
import { StructSchema, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { field as fieldOption } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { Violation } from "../../services/platform/rpc/errors.ts";
import { remembered } from "../../services/platform/rpc/policy.ts";
import { maxItems, tooManyItems } from "../../services/platform/rpc/validation.ts";

/** Initializer of a message, keyed by local name. */
type Init = Record<string, unknown>;

/**
 * Reads fields from a JSON object without type coercion. `null` counts as absent; unknown keys are
 * ignored. A missing field is reported by its constraints, or here if it has none. A field of the
 * wrong type is added to `violations` and has its zero value in the result.
 */
export function readFields(
  fields: DescField[],
  json: object,
  at: string,
  violations: Violation[],
): Init {
  const init: Init = {};
  for (const field of fields) {
    const member = Object.hasOwn(json, field.jsonName) ? (json as Init)[field.jsonName] : null;
    const value = member ?? null; // formats leave absent members undefined
    if (value === null) {
      if (isRequired(field))
        violations.push({ field: at + field.jsonName, message: "is required" });
      continue;
    }
    const given = typeof value === "number" && isDecimal(field) ? String(value) : value;
    const read = readField(field, given, at + field.jsonName, violations);
    if (field.oneof) init[field.oneof.localName] = { case: field.localName, value: read };
    else init[field.localName] = read;
  }
  return init;
}

/** Whether a text may also be given as a number. A number with an exponent is rejected. */
const isDecimal = remembered((field: DescField): boolean => getOption(field, fieldOption).decimal);

function readField(
  field: DescField,
  value: unknown,
  path: string,
  violations: Violation[],
): unknown {
  if (field.fieldKind !== "list") return readItem(field, value, path, violations);
  if (!Array.isArray(value)) {
    violations.push({ field: path, message: "must be a list" });
    return [];
  }
  if (value.length > maxItems(field)) {
    violations.push({ field: path, message: tooManyItems(field) }); // do not read its items
    return [];
  }
  return value.map((item, i) => readItem(field, item, `${path}[${i}]`, violations));
}

/** Whether a field is required although no constraint rejects its zero value. */
const isRequired = remembered((field: DescField): boolean => {
  const rules = getOption(field, fieldRules);
  const isFree =
    rules.type.case === undefined &&
    !rules.cel.length &&
    !rules.celExpression.length &&
    !rules.required;
  return isFree && field.fieldKind === "scalar" && !field.oneof && !field.proto.proto3Optional;
});

function readItem(
  field: DescField,
  value: unknown,
  path: string,
  violations: Violation[],
): unknown {
  const { message, scalar } = field;
  if (message && message.typeName !== TimestampSchema.typeName) {
    if (isObject(value))
      return message.typeName === StructSchema.typeName
        ? value // any JSON; the services limit its depth
        : readFields(message.fields, value, `${path}.`, violations);
    violations.push({ field: path, message: "must be an object" });
    return {};
  }
  const problem = problemOf(field, value);
  if (problem !== undefined) {
    violations.push({ field: path, message: problem });
    return zeroOf(field);
  }
  if (message) return fromJson(TimestampSchema, value as string);
  if (scalar === ScalarType.INT64) return BigInt(value as number);
  const [min, max] = boundsOf(scalar);
  return typeof value === "number" ? Math.min(Math.max(value, min), max) : value;
}

/** The value of a field that could not be read. */
function zeroOf({ message, scalar }: DescField): unknown {
  if (message) return {};
  if (scalar === ScalarType.STRING) return "";
  return scalar === ScalarType.BOOL ? false : 0;
}

/**
 * The range of a numeric type. A number outside the range is replaced with the nearest bound, which
 * violates the constraint of its field anyway.
 */
function boundsOf(scalar: ScalarType | undefined): [min: number, max: number] {
  if (scalar === ScalarType.INT32) return [-(2 ** 31), 2 ** 31 - 1];
  if (scalar === ScalarType.UINT32) return [0, 2 ** 32 - 1];
  return [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
}

/**
 * The problem with a value of a scalar or timestamp field, if any. 64-bit integers are numbers only
 * in foreign formats: ProtoJSON represents them as strings, so our own JSON contains none.
 */
function problemOf({ message, scalar }: DescField, value: unknown): string | undefined {
  if (message)
    return isTimestamp(value) ? undefined : "must be a date and time such as 2026-01-31T12:00:00Z";
  switch (scalar) {
    case ScalarType.STRING:
      return problemOfText(value);
    case ScalarType.BOOL:
      return typeof value === "boolean" ? undefined : "must be true or false";
    case ScalarType.DOUBLE:
      return Number.isFinite(value) ? undefined : "must be a number"; // 1e999 parses as Infinity
    case ScalarType.INT64:
      return Number.isSafeInteger(value) ? undefined : "must be a whole number of at most 53 bits";
    default:
      return Number.isInteger(value) ? undefined : "must be a whole number";
  }
}

function problemOfText(value: unknown): string | undefined {
  if (typeof value !== "string") return "must be a string";
  if (value.includes("\0")) return "must not contain NUL characters";
  return value.isWellFormed() ? undefined : "must not contain lone surrogates";
}

/** Whether a value is a timestamp. Its day must exist: 30 February would be read as 2 March. */
function isTimestamp(value: unknown): boolean {
  if (typeof value !== "string") return false;
  try {
    fromJson(TimestampSchema, value);
    const day = value.slice(0, 10);
    return new Date(day).toISOString().startsWith(day);
  } catch {
    return false;
  }
}

/** Whether a JSON value is an object, that is neither a list nor null. */
export const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);
