import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

test("Environment variables: are read where processes start only", () => {
  const readers = ["services", "gateway"].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && /process\.env/.test(readFileSync(`${folder}/${name}`, "utf8")))
      .map((name) => `${folder}/${name}`),
  );
  expect(readers.sort()).toEqual(["gateway/main.ts", "services/main.ts", "services/platform/process.ts"]);
});
