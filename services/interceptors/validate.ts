import { create, createRegistry, type DescMessage, type DescService, type Message } from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import { createValidator, type Violation } from "@bufbuild/protovalidate";
import type { Interceptor } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { file_gatehouse_platform_v1_rules } from "../../gen/gatehouse/platform/v1/rules_pb.ts";
import { Refusal } from "../refusal.ts";

const validator = createValidator({ registry: createRegistry(file_gatehouse_platform_v1_rules) });

/** Compiles every rule, which takes half a second, so that no caller has to wait for it. */
export function warmUp(services: readonly DescService[]): void {
  for (const { methods } of services) for (const { input } of methods) validator.validate(input, create(input));
}

/** Checks every request against the rules of its proto; names every offending field by its JSON name, never its value. */
export const validate: Interceptor = (next) => async (req) => {
  if (req.method.input.fields.length === 0) return next(req);
  if (!req.stream) {
    check(req.method.input, req.message);
    return next(req);
  }
  return next({ ...req, message: checked(req.method.input, req.message) });
};

async function* checked<T extends Message>(schema: DescMessage, messages: AsyncIterable<T>): AsyncIterable<T> {
  for await (const message of messages) {
    check(schema, message);
    yield message;
  }
}

function check(schema: DescMessage, message: Message): void {
  const result = validator.validate(schema, message);
  if (result.kind === "error") throw result.error;
  const violations = nulsIn(message, "").map((field) => ({ field, message: "must not contain the NUL character" }));
  for (const violation of result.violations ?? []) {
    violations.push({ field: fieldOf(violation), message: violation.message });
  }
  if (violations.length === 0) return;
  const told = violations.map(({ field, message }) => `${field} ${message}`).join("; ");
  throw new Refusal(Reason.VALIDATION_FAILED, `Invalid request: ${told}.`, { violations });
}

/** Paths of the texts that hold a NUL, which PostgreSQL can't store. Local names are JSON names in our protos. */
function nulsIn(value: unknown, path: string): string[] {
  if (typeof value === "string") return value.includes("\0") ? [path] : [];
  if (Array.isArray(value)) return value.flatMap((item, index) => nulsIn(item, `${path}[${index}]`));
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return [];
  return Object.entries(value).flatMap(([name, item]) =>
    name.startsWith("$") ? [] : nulsIn(item, path ? `${path}.${name}` : name),
  );
}

/** `messages[0].role`; a rule of the whole message names the field to blame by its id. */
function fieldOf({ field, ruleId }: Violation): string {
  return field.length === 0 ? ruleId : jsonPath(field);
}

function jsonPath(path: Path): string {
  let text = "";
  for (const step of path) {
    if (step.kind === "list_sub") text += `[${step.index}]`;
    else if (step.kind === "map_sub") text += `[${JSON.stringify(step.key)}]`;
    else if (step.kind === "field") text += text ? `.${step.jsonName}` : step.jsonName;
  }
  return text;
}
