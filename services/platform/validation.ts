import {
  create,
  createRegistry,
  type DescField,
  type DescMessage,
  type DescService,
  getOption,
  type Message,
} from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import { createValidator } from "@bufbuild/protovalidate";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import type { Interceptor } from "@connectrpc/connect";
import { file_gatehouse_platform_v1_rules } from "../../gen/gatehouse/platform/v1/rules_pb.ts";
import { invalidFields, type ServiceError, type Violation } from "./errors.ts";

const validator = createValidator({
  registry: createRegistry(file_gatehouse_platform_v1_rules),
  regexMatch: (pattern, text) => regExpOf(pattern).test(text),
});
const regExps = new Map<string, RegExp>();

/** Compiles a pattern once. Patterns come from our own protos, so the slower engine for untrusted ones is not needed. */
function regExpOf(pattern: string): RegExp {
  const known = regExps.get(pattern);
  if (known) return known;
  const compiled = new RegExp(pattern, "u");
  regExps.set(pattern, compiled);
  return compiled;
}

/** Compiles the constraints of all methods at start, so that no request waits for it. */
export function compileConstraints(services: readonly DescService[]): void {
  for (const { methods } of services) for (const { input } of methods) validator.validate(input, create(input));
}

/** Checks a message against the constraints of its proto. @throws ServiceError VALIDATION_FAILED with all violations */
function validateMessage(schema: DescMessage, message: Message): void {
  const violations = violationsOf(schema, message);
  if (violations.length > 0) throw invalidFields(violations);
}

/** One error for type errors and broken constraints. A constraint on a field with a type error is left out. */
export function invalidRequest(typeErrors: readonly Violation[], broken: readonly Violation[]): ServiceError {
  const fields = new Set(typeErrors.map(({ field }) => field));
  const isReported = ({ field }: Violation) =>
    [...field.matchAll(/(?=[.[])|$/g)].some(({ index }) => fields.has(field.slice(0, index)));
  return invalidFields([...typeErrors, ...broken.filter((violation) => !isReported(violation))]);
}

/** All violations of a message. The items of a list that is too long are not checked. */
export function violationsOf(schema: DescMessage, message: Message): Violation[] {
  const tooLong = overlongLists(schema, message);
  if (tooLong.length > 0) return tooLong;
  const result = validator.validate(schema, message);
  if (result.kind === "error") throw result.error;
  const nuls = nulsIn(message).map((path) => ({ field: path.slice(1), message: "must not contain NUL characters" }));
  const broken = (result.violations ?? []).map(({ field, ruleId, message: text }) => ({
    field: field.length === 0 ? ruleId : jsonPath(field), // the id of a constraint on the whole message is the field's name
    message: text,
  }));
  return [...nuls, ...broken];
}

function overlongLists(schema: DescMessage, message: Message): Violation[] {
  const lists = message as unknown as Record<string, unknown[] | undefined>;
  return schema.fields
    .filter((field) => field.fieldKind === "list" && (lists[field.localName]?.length ?? 0) > maxItems(field))
    .map((field) => ({ field: field.jsonName, message: tooManyItems(field) }));
}

const bounds = new WeakMap<DescField, number>();

/** The `max_items` constraint of a list, or infinity. Cached, since reading an option decodes it. */
export function maxItems(field: DescField): number {
  const known = bounds.get(field);
  if (known !== undefined) return known;
  const { type } = getOption(field, fieldRules);
  const max = (type.case === "repeated" && Number(type.value.maxItems)) || Number.POSITIVE_INFINITY;
  bounds.set(field, max);
  return max;
}

/** What is wrong with a list that exceeds {@link maxItems}. */
export const tooManyItems = (field: DescField) => `must contain at most ${maxItems(field)} items`;

const NONE: readonly string[] = [];

/** Paths of the strings that contain a NUL, which PostgreSQL can't store, such as `.messages[0].role`. */
function nulsIn(value: unknown): readonly string[] {
  if (typeof value === "string") return value.includes("\0") ? [""] : NONE;
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return NONE;
  let found = NONE;
  for (const [name, item] of Object.entries(value)) {
    const inside = nulsIn(item);
    if (inside.length === 0) continue; // paths are built only for what is found
    const step = Array.isArray(value) ? `[${name}]` : `.${name}`;
    found = [...found, ...inside.map((rest) => step + rest)];
  }
  return found;
}

/** `messages[0].role` */
function jsonPath(path: Path): string {
  let text = "";
  for (const step of path) {
    if (step.kind === "list_sub") text += `[${step.index}]`;
    else if (step.kind === "field") text += text ? `.${step.jsonName}` : step.jsonName;
  }
  return text;
}

/** Checks every request against the constraints of its proto. */
export const validate: Interceptor = (next) => (req) => {
  if (req.method.input.fields.length === 0) return next(req);
  if (req.stream) return next({ ...req, message: validated(req.method.input, req.message) });
  validateMessage(req.method.input, req.message);
  return next(req);
};

async function* validated<T extends Message>(schema: DescMessage, messages: AsyncIterable<T>): AsyncIterable<T> {
  for await (const message of messages) {
    validateMessage(schema, message);
    yield message;
  }
}
