import { describe, expect, test } from "vitest";
import { checkJson, hasInvalidEscape } from "../../../services/platform/rpc/check-json.ts";

const MAX_VALUES = 1_000;

describe("JSON text: duplicate keys", () => {
  const cases = [
    { text: '{"a":1,"b":2}', isDuplicate: false },
    { text: '{"a":1,"a":2}', isDuplicate: true },
    { text: '{"a":1,"\\u0061":2}', isDuplicate: true },
    { text: '{"a":{"b":1},"b":2}', isDuplicate: false },
    { text: '{"a":{"b":1,"b":2}}', isDuplicate: true },
    { text: '[{"a":1},{"a":2}]', isDuplicate: false },
    { text: '{"a":"a\\":","b":"a"}', isDuplicate: false },
    { text: '{"a\\\\":1,"a":2}', isDuplicate: false },
  ];
  test.each(cases)("$text", ({ text, isDuplicate }) => {
    expect(checkJson(text, { values: MAX_VALUES })).toBe(isDuplicate);
  });
});

describe("JSON text: is rejected before it is parsed", () => {
  const cases = [
    { what: "too many values of a list", text: `[${"1,".repeat(1_001)}1]` },
    { what: "too many objects", text: `[${"{}".repeat(1_001)}]` },
    { what: "too many lists in objects", text: '{"a":[1,'.repeat(1_001) },
    { what: "too many members", text: `{${'"a":1 '.repeat(10_001)}}` },
    { what: "33 levels", text: "[".repeat(33) },
    { what: "33 levels of lists and objects", text: '{"a":['.repeat(17) },
  ];
  test.each(cases)("$what", ({ text }) => {
    expect(() => checkJson(text, { values: MAX_VALUES })).toThrow(
      /too many fields|more than 32 levels/,
    );
  });
});

describe("JSON text: escapes that neither PostgreSQL nor protobuf accept", () => {
  const cases = [
    { text: '{"a":"plain"}', isInvalid: false },
    { text: '{"a":"\\u0041\\n\\"\\u00e4"}', isInvalid: false },
    { text: '{"a":"\\u0000"}', isInvalid: true },
    { text: '{"\\u0000":1}', isInvalid: true },
    { text: '{"a":"\\\\u0000"}', isInvalid: false },
    { text: '{"a":"\\\\\\u0000"}', isInvalid: true },
    { text: '{"a":"\\ud83d\\ude00"}', isInvalid: false },
    { text: '{"a":"\\uD83D\\uDE00\\uD83D\\uDE00"}', isInvalid: false },
    { text: '{"a":"\\ud83d"}', isInvalid: true },
    { text: '{"a":"\\ude00"}', isInvalid: true },
    { text: '{"a":"\\ude00\\ud83d"}', isInvalid: true },
    { text: '{"a":"\\ud83d\\ud83d\\ude00"}', isInvalid: true },
    { text: '{"a":"\\ud83dx\\ude00"}', isInvalid: true },
    { text: '{"a":"\\ud83d","b":"\\ude00"}', isInvalid: true },
    { text: '{"a":"\\ud83d\\\\ude00"}', isInvalid: true },
    { text: '["😀"]', isInvalid: false },
  ];
  test.each(cases)("$text", ({ text, isInvalid }) => {
    expect(hasInvalidEscape(text)).toBe(isInvalid);
    const value = JSON.stringify(JSON.parse(text)); // writes what is not well-formed as escapes
    expect(/(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f]..)/.test(value)).toBe(isInvalid);
  });
});
