import { expect, test } from "vitest";
import {
  type Conversation,
  contains,
  isAnswering,
  joined,
  markdownOf,
  messagesOf,
  readConversation,
  sumOf,
  titleIn,
  titleOf,
  titleRequestOf,
  upgrade,
  wholeWords,
} from "../../../web/src/lib/conversation.ts";

const reply = (content: string, state: "done" | "failed" = "done") => ({
  ...{ content, provider: "openai", model: "gpt", at: 1, state },
});
const conversation = (changes: Partial<Conversation> = {}): Conversation => ({
  ...{ id: "1", title: "", provider: "openai", model: "gpt", system: "", temperature: "" },
  ...{ isPinned: false, updatedAt: 1, turns: [] },
  ...changes,
});

test("a title is the given one, or the first words, cut at a word boundary", () => {
  const turns = [{ said: `${"word ".repeat(20)}end`, at: 1, replies: [], shown: 0 }];
  expect(titleOf(conversation({ title: "Given", turns }))).toBe("Given");
  expect(titleOf(conversation({ turns }))).toMatch(/^(word )+…$/);
  expect(titleOf(conversation())).toBe("");
});

test("a model is asked for a title if the first message is too long for one", () => {
  const begun = (said: string) => [{ said, at: 1, replies: [], shown: 0 }];
  expect(titleRequestOf(conversation({ turns: begun("Names for a cat") }))).toBeUndefined();
  const turns = begun("How do I plan the launch of a small product?");
  expect(titleRequestOf(conversation({ turns }))).toMatch(/launch of a small product\?$/);
  expect(titleRequestOf(conversation({ title: "Given", turns }))).toBeUndefined();
  expect(titleRequestOf(conversation({ turns: begun("x ".repeat(9_000)) }))?.length).toBeLessThan(
    2_000,
  );
});

test.for([
  ["Launch plan", "Launch plan"],
  ['  **"Launch plan."**\n', "Launch plan"],
  ["„Der Start eines Produkts“", "Der Start eines Produkts"],
  ["Title: Launch plan", "Launch plan"],
  ["", undefined],
  ["Here is one:\n\nLaunch plan", undefined],
  ["A".repeat(61), undefined],
])("the reply %j results in the title %j", ([given, title]) => {
  expect(titleIn(given as string)).toBe(title);
});

test.for([
  ["It halves the ran", "It halves the ", "range.", "It halves the range."],
  ["One line\n    ret", "One line\n    ", "    return 1;", "One line\n    return 1;"],
  ["A list:\n- one\n", "A list:\n- one\n", "  - nested", "A list:\n- one\n  - nested"],
  ["An end. ", "An end. ", "\n\nNext", "An end. \n\nNext"],
  ["Word", "Word", "s", "Words"],
  ["\nWord", "\nWord", "s", "\nWords"],
  ["一".repeat(50), "一".repeat(50), "二", `${"一".repeat(50)}二`],
  ["", "", " Hello", " Hello"],
])("%j is continued from its last whole word", ([text, whole, more, all]) => {
  expect(wholeWords(text as string)).toBe(whole);
  expect(joined(whole as string, more as string)).toBe(all);
});

test("tokens and costs of two calls are added up, unless those of one are unknown", () => {
  const one = { inputTokens: 10, outputTokens: 20, cost: "0.1" };
  const other = { inputTokens: 1, outputTokens: 2, cost: "0.000000002" };
  const tokens = { inputTokens: 11, outputTokens: 22 };
  expect(sumOf(one, other)).toEqual({ ...tokens, cost: "0.100000002" });
  expect(sumOf(one, { inputTokens: 1, outputTokens: 2 })).toEqual(tokens);
  expect(sumOf(one, undefined)).toBeUndefined();
  expect(sumOf(undefined, other)).toBeUndefined();
});

test("an earlier reply that goes on is an answer, too", () => {
  const replies = [{ ...reply("a"), state: "writing" as const }, reply("b")];
  expect(isAnswering(conversation({ turns: [{ said: "x", at: 1, replies, shown: 0 }] }))).toBe(
    true,
  );
});

test("a conversation from a file is read, with defaults for missing fields", () => {
  const turns = [{ said: "Hi", at: 1, replies: [reply("Hello")], shown: 7 }];
  const read = readConversation({ id: "a", turns });
  expect(read).toMatchObject({ id: "a", title: "", isPinned: false, provider: "" });
  expect(read.turns[0]?.shown).toBe(0);
});

test.for([
  undefined,
  {},
  { id: "a" },
  { id: 1, turns: [] },
  { id: "a", turns: [null] },
  { id: "a", turns: [{ said: "Hi", at: 1, replies: [{}], shown: 0 }] },
  { id: "a", turns: [{ said: "Hi", at: 1, replies: [{ ...reply("x"), content: 1 }], shown: 0 }] },
])("%j is not a conversation", (given) => {
  expect(() => readConversation(given as never)).toThrow();
});

test("the API receives the replies that are shown, and no empty one", () => {
  const turns = [
    { said: "One", at: 1, replies: [reply("first"), reply("second")], shown: 0 },
    { said: "Two", at: 2, replies: [reply("", "failed")], shown: 0 },
  ];
  expect(messagesOf(turns)).toEqual([
    { role: "user", content: "One" },
    { role: "assistant", content: "first" },
    { role: "user", content: "Two" },
  ]);
});

test("a search finds titles and all texts, regardless of case", () => {
  const turns = [{ said: "Hello", at: 1, replies: [reply("World")], shown: 0 }];
  const found = ["hello", "WORLD", "name"].map((text) =>
    contains(conversation({ title: "A Name", turns }), text),
  );
  expect(found).toEqual([true, true, true]);
  expect(contains(conversation({ turns }), "nowhere")).toBe(false);
});

test("a Markdown export contains the title, and the messages and replies shown", () => {
  const turns = [{ said: "Hello", at: 1, replies: [reply("a"), reply("b")], shown: 1 }];
  expect(markdownOf(conversation({ title: "T", turns }))).toBe(
    "# T\n\n## You\n\nHello\n\n## gpt\n\nb",
  );
});

test("a conversation of an earlier version is migrated, with failed and stopped replies", () => {
  const former = {
    id: "1732700000000-0.5",
    ...{ provider: "provider-a", model: "m", system: "s", temperature: "1" },
    turns: [
      { role: "user", content: "Hello" },
      { role: "assistant", content: "Hi", isStopped: true },
      { role: "user", content: "Again" },
      { role: "assistant", content: "", problem: "a sentence" },
    ],
  };
  const { turns, updatedAt, system } = upgrade(former);
  expect([updatedAt, system]).toEqual([1_732_700_000_000, "s"]);
  expect(turns.map(({ said, replies }) => [said, replies.map(({ state }) => state)])).toEqual([
    ["Hello", ["stopped"]],
    ["Again", ["failed"]],
  ]);
});
