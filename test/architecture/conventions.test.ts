import { basename } from "node:path";
import { expect, test } from "vitest";
import { sourcesIn, UNCLEAR } from "../support/sources.ts";

/** Names that several folders have. */
const SHARED_NAMES = ["errors", "handler", "health", "main", "server", "usage", "worker"];
/** Exceptions and bounds, which only shrink. */
const INTERVALS = ["sse.ts", "worker.ts"]; // heartbeats of streams; leases of mails
const MAX_CASTS = 5;
const MAX_PRODUCT = { files: 127, lines: 11_900 };
const MAX_TEST_LINES = 17_500;
const MAX_SIMULATOR_LINES = 1_200;
const MAX_LINES = 200;
/** Unclear words by folder. Those of services are in e-mails, those of tests list them. */
const MAX_UNCLEAR = { gateway: 0, proto: 0, scripts: 0, services: 3, test: 2 };

const product = [...sourcesIn("gateway"), ...sourcesIn("services")];
const tests = sourcesIn("test");
const linesIn = (files: { text: string }[]) => files.reduce((sum, { text }) => sum + text.split("\n").length - 1, 0);
const matching = (pattern: RegExp) =>
  product.filter(({ text }) => pattern.test(text)).map(({ path }) => basename(path));
const repeated = (names: string[]) => [...new Set(names.filter((name, i) => names.indexOf(name) !== i))];

test("Conventions: names of files and exports are unique, except names that several folders have", () => {
  const files = repeated(product.map(({ path }) => basename(path, ".ts")));
  expect(files.filter((name) => !SHARED_NAMES.includes(name))).toEqual([]);
  const exported = /^export (?:async )?(?:function\*?|const|class|type|let) (\w+)/gm;
  const names = repeated(product.flatMap(({ text }) => [...text.matchAll(exported)].map(([, name = ""]) => name)));
  expect(names).toEqual([]);
});

test("Conventions: files, product and tests are no larger than their bounds", () => {
  const long = [...product, ...tests].filter((file) => linesIn([file]) > MAX_LINES);
  expect(long.map(({ path }) => path)).toEqual([]);
  expect(product.length).toBeLessThanOrEqual(MAX_PRODUCT.files);
  expect(linesIn(product)).toBeLessThanOrEqual(MAX_PRODUCT.lines);
  expect(linesIn(tests)).toBeLessThanOrEqual(MAX_TEST_LINES);
  expect(linesIn(sourcesIn("scripts/simulators"))).toBeLessThanOrEqual(MAX_SIMULATOR_LINES);
});

test("Conventions: no file patches prototypes, imports internals of Connect, or has its own interval", () => {
  expect(matching(/Object\.create\((?!null\))/)).toEqual([]);
  expect(matching(/@connectrpc\/connect\/protocol/)).toEqual([]);
  const intervals = product.filter(
    ({ path, text }) => !path.startsWith("services/jobs/") && /\bsetInterval\(/.test(text),
  );
  expect(intervals.map(({ path }) => basename(path)).filter((name) => !INTERVALS.includes(name))).toEqual([]);
  const casts = product.flatMap(({ text }) => text.match(/\bas unknown as\b/g) ?? []);
  expect(casts.length).toBeLessThanOrEqual(MAX_CASTS);
});

test("Conventions: environment variables are read where processes start only", () => {
  const readers = product.filter(({ text }) => /process\.env/.test(text)).map(({ path }) => path);
  expect(readers.sort()).toEqual(["gateway/main.ts", "services/main.ts", "services/platform/process.ts"]);
});

test.each(Object.entries(MAX_UNCLEAR))(
  "Conventions: %s is written in plain English (unclear words left: %i)",
  (folder, most) => {
    const files = folder === "proto" ? sourcesIn(folder, ".proto") : sourcesIn(folder);
    const found = files.flatMap(({ path, text }) =>
      text.split("\n").flatMap((line, i) => (UNCLEAR.test(line) ? [`${path}:${i + 1} ${line.trim()}`] : [])),
    );
    expect(found.length, found.slice(-3).join("\n")).toBeLessThanOrEqual(most);
  },
);
