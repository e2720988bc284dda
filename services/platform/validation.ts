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
import { file_gatehouse_platform_v1_rules } from "../../gen/gatehouse/platform/v1/rules_pb.ts";
import type { Violation } from "./errors.ts";

const validator = createValidator({
  registry: createRegistry(file_gatehouse_platform_v1_rules),
  regexMatch: (pattern, text) => expressionOf(pattern).test(text),
});
const expressions = new Map<string, RegExp>();

/** Patterns are our protos' own: they need no engine that stands what a stranger writes, which costs far more. */
function expressionOf(pattern: string): RegExp {
  const known = expressions.get(pattern);
  if (known) return known;
  const expression = new RegExp(pattern, "u");
  expressions.set(pattern, expression);
  return expression;
}

/** Compiles every rule, so that no caller has to wait for it. */
export function compileRules(services: readonly DescService[]): void {
  for (const { methods } of services) for (const { input } of methods) validator.validate(input, create(input));
}

/** Everything in a message that breaks a rule of its proto. A list that is too long is not looked into. */
export function violationsOf(schema: DescMessage, message: Message): Violation[] {
  const tooLong = overlongLists(schema, message);
  if (tooLong.length > 0) return tooLong;
  const result = validator.validate(schema, message);
  if (result.kind === "error") throw result.error;
  const nuls = nulsIn(message).map((path) => ({ field: path.slice(1), message: "must not contain the NUL character" }));
  const broken = (result.violations ?? []).map(({ field, ruleId, message: told }) => ({
    field: field.length === 0 ? ruleId : jsonPath(field), // a rule of the whole message names the field to blame by its id
    message: told,
  }));
  return [...nuls, ...broken];
}

function overlongLists(schema: DescMessage, message: Message): Violation[] {
  const lists = message as unknown as Record<string, unknown[] | undefined>;
  return boundsOf(schema)
    .filter(({ field, most }) => (lists[field.localName]?.length ?? 0) > most)
    .map(({ field, most }) => ({ field: field.jsonName, message: `must contain at most ${most} items` }));
}

type Bound = { field: DescField; most: number };
const bounds = new WeakMap<DescMessage, Bound[]>();

/** The lists of a message that have a bound, looked up once: reading an option decodes it every time. */
function boundsOf(schema: DescMessage): Bound[] {
  const known = bounds.get(schema);
  if (known) return known;
  const found = schema.fields.flatMap((field) => {
    const { type } = getOption(field, fieldRules);
    const most = type.case === "repeated" ? Number(type.value.maxItems) : 0;
    return most > 0 ? [{ field, most }] : [];
  });
  bounds.set(schema, found);
  return found;
}

const NONE: readonly string[] = [];

/** Paths of the texts that hold a NUL, which PostgreSQL can't store; `.messages[0].role` where local names are JSON names. */
function nulsIn(value: unknown): readonly string[] {
  if (typeof value === "string") return value.includes("\0") ? [""] : NONE;
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return NONE;
  let found = NONE;
  for (const [name, item] of Object.entries(value)) {
    const inside = nulsIn(item);
    if (inside.length === 0) continue; // as nearly always: paths are made of what is found alone
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
