import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

test("Client: has no runtime dependency and imports nothing but its own files", () => {
  const { dependencies, peerDependencies } = JSON.parse(readFileSync("client/package.json", "utf8"));
  expect([dependencies, peerDependencies]).toEqual([undefined, undefined]);
  const imports = ["api", "client", "errors", "events", "index", "session"].flatMap((name) =>
    [...readFileSync(`client/src/${name}.ts`, "utf8").matchAll(/\bfrom "([^"]+)"/g)].map(([, from]) => from),
  );
  expect(imports.filter((from) => !from?.startsWith("./"))).toEqual([]);
});
