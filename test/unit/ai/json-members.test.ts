import { describe, expect, test } from "vitest";
import { withMembers, withoutMember } from "../../../services/ai/relay/json-members.ts";

const MEMBERS = { model: '"upstream"', store: "false" };

describe("Members of a JSON text", () => {
  test.each([
    ["{}", '{"model":"upstream","store":false}'],
    [" \n{ \t}\r\n", ' \n{ \t"model":"upstream","store":false}\r\n'],
    ['{"model":"a","store":true}', '{"model":"upstream","store":false}'],
    ['{"store":null,"model":1}', '{"store":false,"model":"upstream"}'],
    ['{"model" : "a" , "n":1 }', '{"model" : "upstream" , "n":1 ,"store":false}'],
    // values of every kind, and what looks like the end of one
    ['{"a":"}\\",\\"model\\":\\"","model":"x"}', '{"a":"}\\",\\"model\\":\\"","model":"upstream"'],
    ['{"a":"\\\\","model":"x"}', '{"a":"\\\\","model":"upstream"'],
    [
      '{"a":{"model":"x","b":["]}"]},"model":[{"c":"\\\\\\""}]}',
      '{"a":{"model":"x","b":["]}"]},"model":"upstream"',
    ],
    ['{"a":[[],{}],"model":{}}', '{"a":[[],{}],"model":"upstream"'],
    [
      '{"n":12345678901234567890,"e":-1.50E+3,"model":true}',
      '{"n":12345678901234567890,"e":-1.50E+3,"model":"upstream"',
    ],
    // names are compared as they are read, and only those at the top
    ['{"mod\\u0065l":"x"}', '{"mod\\u0065l":"upstream"'],
    [
      '{"__proto__":1,"constructor":2,"model":"x"}',
      '{"__proto__":1,"constructor":2,"model":"upstream"',
    ],
    ['{"":0,"model ":1,"Model":2}', '{"":0,"model ":1,"Model":2,"model":"upstream"'],
    ['{"text":"\u{1f600}\u2028","model":"x"}', '{"text":"\u{1f600}\u2028","model":"upstream"'],
  ])("are set in %s", (text, beginning) => {
    const result = withMembers(text, MEMBERS);
    expect(result.startsWith(beginning)).toBe(true);
    expect(JSON.parse(result)).toEqual({ ...JSON.parse(text), model: "upstream", store: false });
  });

  test("are unchanged if there is nothing to set", () => {
    for (const text of ["{}", ' {"a" : [1, 2] , "b":"}"} '])
      expect(withMembers(text, {})).toBe(text);
  });

  test("are set in a large text", () => {
    const text = JSON.stringify({
      deep: JSON.parse("[".repeat(60) + "]".repeat(60)),
      long: '\\"{['.repeat(500_000),
      many: Array.from({ length: 100_000 }, (_, i) => ({ i })),
      model: "x",
    });
    expect(JSON.parse(withMembers(text, MEMBERS)).model).toBe("upstream");
  });

  test("do not make a truncated text valid", () => {
    const text = '{"a":[1,{"b":"x\\""}],"model":"m","n":-1e5}';
    const parsed = (cut: string) => JSON.parse(withMembers(cut, MEMBERS));
    for (let end = 1; end < text.length; end++)
      expect(() => parsed(text.slice(0, end)), text.slice(0, end)).toThrow(SyntaxError);
  });

  test.each([
    ['{"model":"x"}', "{}"],
    [' { "model" : "x" } ', " { } "],
    ['{"model":"x","a":1}', '{"a":1}'],
    ['{"a":[1,2],"model":"x,}"}', '{"a":[1,2]}'],
    [
      '{"a":"model", "model":{"b":","} ,"n":12345678901234567890}',
      '{"a":"model", "n":12345678901234567890}',
    ],
    ['{"a":{"model":1}}', '{"a":{"model":1}}'],
    ["{}", "{}"],
  ])("are removed from %s", (text, expected) => {
    const result = withoutMember(text, "model");
    const { model: _, ...others } = JSON.parse(text);
    expect(JSON.parse(result)).toEqual(others);
    expect(result.replace(/ /g, "")).toBe(expected.replace(/ /g, ""));
  });
});
