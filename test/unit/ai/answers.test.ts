import { expect, test } from "vitest";
import { startModelServer } from "./model-server.ts";

const COUNT = '{"input_tokens":7}';

test("A token count reports the model that it continues with, which is the one that fails", async () => {
  const statuses = [503, 400];
  const { count } = await startModelServer("key", (response) =>
    response.writeHead(statuses.shift() ?? 200).end(COUNT),
  );
  const targets: number[] = [];
  await expect(count((index) => targets.push(index))).rejects.toThrow("rejected the request");
  expect(targets).toEqual([1]);
  expect(await count((index) => targets.push(index))).toBe(COUNT);
  expect(targets).toEqual([1]);
});

test.each([
  ["{}", "unreadable reply"],
  ['{"detail":"Not Found"}', "unreadable reply"],
  ['{"input_tokens":"7"}', "unreadable reply"],
  ['{"input_tokens":-1}', "unreadable reply"],
  ['{"input_tokens":7', "unreadable reply"],
  [`[${COUNT}]`, "unreadable reply"],
  ["7", "unreadable reply"],
  ["null", "unreadable reply"],
  ["<html>Sign in</html>", "unreadable reply"],
  ['{"type":"error","error":{"type":"overloaded_error"},"input_tokens":7}', "overloaded"],
])("A token count is a number, or fails: %s", async (body, failure) => {
  const { count } = await startModelServer("key", (response) => response.end(body));
  await expect(count(() => {})).rejects.toThrow(failure);
});
