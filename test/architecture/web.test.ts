import { readdirSync, readFileSync } from "node:fs";
import { create, type DescMethod, ScalarType } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { AdminService } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { violationsOf } from "../../services/platform/rpc/validation.ts";
import { messages, violationKey } from "../../web/src/messages/index.ts";

const CLIENT_CODES = ["NETWORK_ERROR", "STREAM_ERROR", "UNEXPECTED_RESPONSE"];
/** Fields that the app fills in, or that are chosen from a list. */
const NOT_TYPED = [
  "cursor",
  "events",
  "id",
  "models",
  "period",
  "purpose",
  "refreshToken",
  "role",
  "scope",
  "sort",
  "state",
  "status",
  "tempToken",
  "unit",
];
/** Texts that are typed with commas between them. */
const TYPED_LISTS = ["events", "models"];
const BAD = ["", " ", "x", "\0", "\u0001", "\u200b", "x".repeat(5_000)];
const TERMS = "must be true: the terms have to be accepted";
/** What the group of a pattern matches in a file. */
const textsIn = (path: string, pattern: RegExp) =>
  [...readFileSync(path, "utf8").matchAll(pattern)].map(([, text = ""]) => text);
const placeholders = (text: string) => [...text.matchAll(/\{\w+\}/g)].flat().sort();

test("Web app: has a message for every error code of API and client, and for no other", () => {
  const reasons = Object.keys(Reason).filter((name) => Number.isNaN(Number(name)));
  const codes = reasons.map((reason) => (reason === "UNSPECIFIED" ? "INTERNAL" : reason));
  const sentences = Object.keys(messages).filter((key) => key.startsWith("errors."));
  expect(codes.length).toBeGreaterThan(30);
  expect(sentences.sort()).toEqual(
    [...codes, ...CLIENT_CODES].map((code) => `errors.${code}`).sort(),
  );
});

test("Web app: has a message for every violation of a form field", () => {
  const methods = [AdminService, AuthService, UserService]
    .flatMap((service) => service.methods as DescMethod[])
    .concat([AIService.method.setBudget, AIService.method.adjustBudget]);
  const byRule = methods.flatMap(({ input }) => {
    const typed = input.fields.filter(
      (f) => f.scalar === ScalarType.STRING && !NOT_TYPED.includes(f.localName),
    );
    const lists = input.fields.filter(
      (f) => f.fieldKind === "list" && TYPED_LISTS.includes(f.localName),
    );
    const values = [
      ...typed.flatMap(({ localName }) => BAD.map((value) => ({ [localName]: value }))),
      ...lists.flatMap(({ localName }) => [[], ["x y"]].map((value) => ({ [localName]: value }))),
    ];
    return values.flatMap((value) =>
      violationsOf(input, create(input, value as never))
        .filter(({ field }) => field.replace(/\[0\]$/, "") === Object.keys(value)[0])
        .map(({ message }) => message),
    );
  });
  const byOperation = ["accounts", "ai/budgets", "auth", "devices", "user", "webhooks"].flatMap(
    (folder) =>
      readdirSync(`services/${folder}`).flatMap((name) =>
        textsIn(
          `services/${folder}/${name}`,
          /(?:invalid\(.*|return |[?:] )"((?:must|is) [^"]+)"/g,
        ),
      ),
  );
  const possible = [...byRule, ...byOperation, TERMS].filter(
    (message) => !message.startsWith("value is empty"),
  ); // ids
  const sentences = Object.keys(messages).filter((key) => key.startsWith("violations."));
  expect(sentences.sort()).toEqual([...new Set(possible.map(violationKey))].sort());
});

test.each([
  { kind: "event", path: "services/audit/record.ts", pattern: /"([a-z]+\.[a-z_]+)"/g },
  {
    kind: "template",
    path: "services/mail/texts/en.json",
    pattern: /^ {4}"([a-z-]+)": \{\n {6}"subject"/gm,
  },
  { kind: "provider", path: "services/ai/providers/errors.ts", pattern: /^ {2}\| "([a-z ]+)"/gm },
])(
  "Web app: every $kind of $path has a sentence, and there is no other",
  ({ kind, path, pattern }) => {
    const names = textsIn(path, pattern).map((name) => `${kind}.${name}`);
    expect(names.length).toBeGreaterThan(10);
    expect(Object.keys(messages).filter((key) => key.startsWith(`${kind}.`))).toEqual(names);
  },
);

test("Web app: every text exists in English and German, with the same placeholders", () => {
  for (const [key, [english, german]] of Object.entries(messages)) {
    expect([english.trim(), german.trim()], key).not.toContain("");
    expect(placeholders(german), key).toEqual(placeholders(english));
    if (/^(errors|violations|event|template|provider)/.test(key))
      expect(german, key).not.toBe(english);
  }
});
