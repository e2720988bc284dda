import { expect, test } from "vitest";
import { startModelServer } from "./model-server.ts";

test("A count of tokens says which model it goes on to, which is the one that fails", async () => {
  const statuses = [503, 400];
  const { count } = await startModelServer("key", (response) =>
    response.writeHead(statuses.shift() ?? 200).end("{}"),
  );
  const targets: number[] = [];
  await expect(count((index) => targets.push(index))).rejects.toThrow("rejected the request");
  expect(targets).toEqual([1]);
  expect(await count((index) => targets.push(index))).toBe("{}");
  expect(targets).toEqual([1]);
});
