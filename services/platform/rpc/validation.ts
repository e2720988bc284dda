import {
  createRegistry,
  type DescField,
  type DescMessage,
  getOption,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import { createValidator } from "@bufbuild/protovalidate";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import type { ContextValues, Interceptor } from "@connectrpc/connect";
import { field as fieldPolicy } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { file_gatehouse_platform_v1_rules } from "../../../gen/gatehouse/platform/v1/rules_pb.ts";
import { invalidFields, type Violation } from "./errors.ts";
import { remembered } from "./policy.ts";
import { foldTypedTexts, withComparedPasswords } from "./typed-text.ts";
import { unreadOf } from "./unread.ts";

const validator = createValidator({
  registry: createRegistry(file_gatehouse_platform_v1_rules),
  regexMatch: (pattern, text) => regExpOf(pattern).test(text),
});

/** Patterns come from our own protos, so the slower engine for untrusted patterns is not needed. */
const regExpOf = remembered((pattern: string) => new RegExp(pattern, "u"));

/**
 * Finds all violations in a message. Typed texts are normalized first, in place. A list or text
 * that is far too long is emptied, because validating it would take long although its rejection is
 * certain.
 */
export function violationsOf(schema: DescMessage, message: Message): readonly Violation[] {
  const tooLong = [...takeOverlongLists(schema, message), ...takeOverlongTexts(schema, message)];
  foldTypedTexts(schema, message);
  const result = validator.validate(schema, withComparedPasswords(schema, message));
  if (result.kind === "error") throw result.error;
  const nuls = nulsIn(message).map((path) => ({
    field: path.slice(1),
    message: "must not contain NUL characters",
  }));
  const broken = (result.violations ?? []).map(({ field, ruleId, message: text }) => ({
    field: field.length === 0 ? ruleId : jsonPath(field), // a constraint on the whole message has the field name as its id
    message: WORDINGS.reduce((worded, [theirs, ours]) => worded.replace(theirs, ours), text),
  }));
  return withOthers(tooLong, [...nuls, ...broken]);
}

/** Messages of protovalidate, and the wording that replaces them. */
const WORDINGS: [RegExp, string][] = [
  [/^must be in list \[(.*)\]$/, "must be one of $1"],
  [
    /^must be greater than or equal to (\S+) and less than or equal to (\S+)$/,
    "must be from $1 to $2",
  ],
  [/^must contain at least 1 item\(s\)$/, "must not be empty"],
  [/^does not match regex pattern `\^\[0-9\].*$/, "must be a number such as 20 or 0.50"],
];

function takeOverlongLists(schema: DescMessage, message: Message): Violation[] {
  const lists = message as unknown as Record<string, unknown[]>;
  const long = schema.fields.filter(
    (f) => f.fieldKind === "list" && (lists[f.localName] ?? []).length > maxItems(f),
  );
  for (const { localName } of long) lists[localName] = [];
  return long.map((field) => ({ field: field.jsonName, message: tooManyItems(field) }));
}

/** Maximum number of UTF-16 code units per character. */
const UNITS_PER_CHARACTER = 2;

/**
 * Rejects texts that are too long whatever characters they consist of, because counting the
 * characters of such texts takes long.
 */
function takeOverlongTexts(schema: DescMessage, message: Message): Violation[] {
  const texts = message as unknown as Record<string, string | undefined>;
  const long = schema.fields.filter(
    (field) =>
      field.scalar === ScalarType.STRING &&
      field.fieldKind === "scalar" &&
      (texts[field.localName] ?? "").length > UNITS_PER_CHARACTER * maxCharacters(field),
  );
  for (const { localName } of long) texts[localName] = "";
  return long.map((field) => ({
    field: field.jsonName,
    message: `must be at most ${maxCharacters(field)} characters`,
  }));
}

/** The `max_len` constraint of a string field, or infinity. */
const maxCharacters = remembered((field: DescField): number => {
  const { type } = getOption(field, fieldRules);
  return (type.case === "string" && Number(type.value.maxLen)) || Number.POSITIVE_INFINITY;
});

/** The `max_items` constraint of a repeated field, or infinity. */
export const maxItems = remembered((field: DescField): number => {
  const { type } = getOption(field, fieldRules);
  return (type.case === "repeated" && Number(type.value.maxItems)) || Number.POSITIVE_INFINITY;
});

/** Violation message for a list that exceeds {@link maxItems}. */
export const tooManyItems = (field: DescField) => `must contain at most ${maxItems(field)} items`;

const NONE: readonly string[] = [];

/**
 * Paths of all strings that contain a NUL, which PostgreSQL can't store, such as
 * `.messages[0].role`.
 */
function nulsIn(value: unknown): readonly string[] {
  if (typeof value === "string") return value.includes("\0") ? [""] : NONE;
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return NONE;
  let found = NONE;
  for (const [name, item] of Object.entries(value)) {
    const inside = nulsIn(item);
    if (inside.length === 0) continue; // build paths only for strings that are found
    const step = Array.isArray(value) ? `[${name}]` : `.${name}`;
    found = [...found, ...inside.map((rest) => step + rest)];
  }
  return found;
}

/** Formats a path such as `messages[0].role`. */
const jsonPath = (path: Path) =>
  path
    .map((step) =>
      step.kind === "list_sub"
        ? `[${step.index}]`
        : step.kind === "field"
          ? `.${step.jsonName}`
          : "",
    )
    .join("")
    .slice(1);

/** Checks that the constraints in a proto cannot express, by the schema of the request. */
type MessageChecks = ReadonlyMap<DescMessage, (message: never) => readonly Violation[]>;

/** Whether the caller has a password. */
type HasPassword = (values: ContextValues) => boolean;

/** The field with the current password of the caller, if a request has one. */
const ownPasswordField = remembered(
  ({ fields }: DescMessage): DescField | null =>
    fields.find((field) => getOption(field, fieldPolicy).ownPassword) ?? null,
);

/**
 * The password field of a request if the caller has no password and sends none; otherwise
 * undefined.
 */
function omittedPassword(schema: DescMessage, message: Message, hasPassword: () => boolean) {
  const field = ownPasswordField(schema);
  const texts = message as Message & Record<string, unknown>;
  return field && texts[field.localName] === "" && !hasPassword() ? field.jsonName : undefined;
}

/**
 * Validates every request against its proto and its own check, if it has one. A single error lists
 * all violations, including those found by the gateway. A request that the gateway could not read
 * is rejected here, after its caller has been authorized.
 */
export const validate =
  (checks: MessageChecks = new Map(), hasPassword: HasPassword = () => true): Interceptor =>
  (next) =>
  (req) => {
    const { input } = req.method;
    const { fault, typeErrors = [] } = unreadOf(req.header, req.contextValues);
    if (fault) throw fault;
    if (input.fields.length === 0) return next(req);
    const assertValid = (message: Message) => {
      const omitted = omittedPassword(input, message, () => hasPassword(req.contextValues));
      const found = [
        typeErrors,
        violationsOf(input, message).filter(({ field }) => field !== omitted),
        checks.get(input)?.(message as never) ?? [],
      ];
      const violations = found.reduce(withOthers);
      if (violations.length > 0) throw invalidFields(violations);
    };
    if (req.stream) return next({ ...req, message: tapped(req.message, assertValid) });
    assertValid(req.message);
    return next(req);
  };

/** Adds the violations of other fields. One violation per field is enough. */
export function withOthers(
  known: readonly Violation[],
  others: readonly Violation[],
): readonly Violation[] {
  if (known.length === 0) return others;
  const fields = new Set(known.map(({ field }) => field));
  const isReported = ({ field }: Violation) =>
    [...field.matchAll(/(?=[.[])|$/g)].some(({ index }) => fields.has(field.slice(0, index)));
  return [...known, ...others.filter((violation) => !isReported(violation))];
}

async function* tapped<T>(messages: AsyncIterable<T>, tap: (message: T) => void): AsyncIterable<T> {
  for await (const message of messages) {
    tap(message);
    yield message;
  }
}
