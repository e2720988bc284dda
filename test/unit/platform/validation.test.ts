import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { UpdateProfileRequestSchema } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { ChatRequestSchema } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { violationsOf } from "../../../services/platform/rpc/validation.ts";

const conversation = {
  provider: "provider-a",
  messages: [{ role: "user", content: "Hello" }],
} satisfies MessageInitShape<typeof ChatRequestSchema>;

/** Texts with a limit, each in a request that is valid otherwise. */
const texts = [
  { field: "systemPrompt", max: 65_536, schema: ChatRequestSchema, others: conversation },
  { field: "provider", max: 64, schema: ChatRequestSchema, others: conversation },
  { field: "model", max: 128, schema: ChatRequestSchema, others: conversation },
  { field: "bio", max: 1_000, schema: UpdateProfileRequestSchema, others: {} },
] as const;

/** Characters of one and of two UTF-16 code units. */
const characters = [
  { what: "letters", character: "x" },
  { what: "umlauts", character: "ä" },
  { what: "emoji", character: "😀" },
  { what: "combining marks", character: "\u0301" },
  { what: "blanks", character: "\u00a0" },
];

describe.each(texts)("The limit of $field", ({ field, max, schema, others }) => {
  const made = (text: string) =>
    create(schema as DescMessage, { ...others, [field]: text } as never) as never;
  const violation = { field, message: `must be at most ${max} characters` };

  test.each(characters)("counts characters: $what", ({ character }) => {
    expect(violationsOf(schema, made(character.repeat(max)))).toEqual([]);
    expect(violationsOf(schema, made(character.repeat(max + 1)))).toEqual([violation]);
  });

  test.each(characters)(
    "rejects a text of twice its length without counting: $what",
    ({ character }) => {
      const message = made(character.repeat(2 * max + 1));
      expect(violationsOf(schema, message)).toEqual([violation]);
      expect(message[field]).toBe(""); // what was validated
    },
  );
});

test("An overlong text is reported once, together with other violations", () => {
  const long = "x".repeat(200_000);
  const request = { provider: long, systemPrompt: long, messages: [], temperature: 3 };
  const violations = violationsOf(ChatRequestSchema, create(ChatRequestSchema, request));
  expect(violations.map(({ field }) => field).sort()).toEqual([
    "messages",
    "provider",
    "systemPrompt",
    "temperature",
  ]);
});
