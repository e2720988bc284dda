import {
  type DescField,
  type DescMethod,
  getOption,
  hasOption,
  ScalarType,
} from "@bufbuild/protobuf";
import { StructSchema, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { expect, test } from "vitest";
import { readBinding } from "../../gateway/transcode/binding.ts";
import { Access, CookieClearing } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { http } from "../../gen/google/api/annotations_pb.ts";
import { clientMethods } from "../../services/platform/rpc/policy.ts";

const SEGMENTS = /^(?:\/(?:[A-Za-z0-9._~-]+|\{[a-z0-9_]+\}))+$/;
const { STRING, BOOL, DOUBLE, INT32, UINT32, INT64, BYTES } = ScalarType;

const isText = (field: DescField | undefined) =>
  field?.fieldKind === "scalar" && field.scalar === STRING && !field.oneof;
const isTimestamp = ({ message }: DescField) => message?.typeName === TimestampSchema.typeName;
/** Whether a field is any JSON object. */
const isStruct = ({ message }: DescField) => message?.typeName === StructSchema.typeName;

/**
 * Whether a request field is of a type that is read from JSON. 64-bit numbers are only in foreign
 * formats: ProtoJSON writes them as strings. So are bytes, and alternatives, which a format tells
 * apart.
 */
function isReadable(field: DescField, isForeign = false): boolean {
  if ((field.oneof && !isForeign) || field.fieldKind === "map") return false;
  if (isStruct(field)) return true;
  if (!field.message || isTimestamp(field)) {
    const scalars = [
      undefined,
      STRING,
      BOOL,
      DOUBLE,
      INT32,
      UINT32,
      ...(isForeign ? [INT64, BYTES] : []),
    ];
    return !field.enum && scalars.includes(field.scalar);
  }
  const { typeName, fields } = field.message;
  return (
    !typeName.startsWith("google.protobuf.") && fields.every((each) => isReadable(each, isForeign))
  );
}

/**
 * Whether a number has its own bounds. The gateway reports those, and not the ones of its type.
 */
function isBounded(field: DescField): boolean {
  if (field.scalar !== INT32 && field.scalar !== UINT32)
    return isTimestamp(field) || isStruct(field) || (field.message?.fields ?? []).every(isBounded);
  const { type } = getOption(field, fieldRules);
  const rules = type.case === "int32" || type.case === "uint32" ? type.value : undefined;
  return rules?.greaterThan.value !== undefined && rules.lessThan.value !== undefined;
}

/** What the gateway does not support of a method. */
function problemsOf(method: DescMethod): string[] {
  const { additionalBindings, body, pattern, responseBody, selector } = getOption(method, http);
  const { policy, pathFields, queryFields, ...binding } = readBinding(method);
  const { httpMethod, requestCookies, responseCookies, responseField } = binding;
  const { successStatus } = policy;
  const variables = String(pattern.value).match(/\{/g)?.length ?? 0;
  const isStream = method.methodKind === "server_streaming";
  const clearsCookie = policy.clearsCookie !== CookieClearing.UNSPECIFIED;
  const cookies = [...requestCookies, ...responseCookies];
  const checks: Record<string, boolean> = {
    "a client stream": method.methodKind !== "unary" && !isStream,
    "additional_bindings or a selector": additionalBindings.length > 0 || selector !== "",
    "a path that is no list of names and variables": !SEGMENTS.test(String(pattern.value)),
    "path variables that are no different text fields":
      !pathFields.every(isText) || new Set(pathFields).size !== variables,
    "a response_body that is no field": responseBody !== "" && !responseField,
    "a text_type of a response that is not one text":
      policy.textType !== "" && (isStream || !isText(responseField)),
    "a body of one field": !["", "*"].includes(body),
    "a body of GET or DELETE": body !== "" && ["GET", "DELETE"].includes(httpMethod),
    "a cookie without a plain name or text": cookies.some(
      (c) => !/^[\w-]+$/.test(c.cookie) || !isText(c.field),
    ),
    "a request field of such a type": !method.input.fields.every((field) =>
      isReadable(field, binding.format !== undefined),
    ),
    "a whole number without bounds": !method.input.fields.every(isBounded),
    "a message in a query": queryFields.some((field) => field.message && !isTimestamp(field)),
    "a success_status that is none": successStatus < 200 || successStatus > 299,
    "max_age_seconds of a response that is not the same for all callers":
      policy.maxAgeSeconds > 0 &&
      (policy.access !== Access.PUBLIC || method.input.fields.length > 0),
    "clears_cookie without a cookie": clearsCookie && requestCookies.length === 0,
    "a stream with a status, a response_body or cookies":
      isStream &&
      (successStatus !== 200 || !!responseField || clearsCookie || responseCookies.length > 0),
  };
  const found = Object.keys(checks).filter((problem) => checks[problem]);
  return found.map((problem) => `${method.name}: ${problem}`);
}

test("Binding: the gateway supports the options of every method", () => {
  const methods = clientMethods();
  expect(methods.filter((method) => !hasOption(method, http))).toEqual([]);
  expect(methods.flatMap(problemsOf)).toEqual([]);
});
