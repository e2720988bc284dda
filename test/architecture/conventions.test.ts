import { basename } from "node:path";
import { expect, test } from "vitest";
import { sourcesIn } from "./sources.ts";

/** Names that several folders have. */
const SHARED_NAMES = [
  ...[
    "errors",
    "handler",
    "health",
    "main",
    "openai",
    "process",
    "queue",
    "server",
    "usage",
    "worker",
  ],
];
/** Exceptions, which only become fewer. */
const INTERVALS = ["sse.ts", "worker.ts"]; // heartbeats of streams; leases of mails
const MAX_CASTS = 5;
const GETTERS = ["access-token.ts", "key-ring.ts"]; // of objects that live as long as the process

const product = [...sourcesIn("gateway"), ...sourcesIn("services")];
const matching = (pattern: RegExp) =>
  product.filter(({ text }) => pattern.test(text)).map(({ path }) => basename(path));
const repeated = (names: string[]) => [
  ...new Set(names.filter((name, i) => names.indexOf(name) !== i)),
];

test("Conventions: names of files and exports are unique, except names shared by several folders", () => {
  const files = repeated(product.map(({ path }) => basename(path, ".ts")));
  expect(files.filter((name) => !SHARED_NAMES.includes(name))).toEqual([]);
  const exported = /^export (?:async )?(?:function\*?|const|class|type|let) (\w+)/gm;
  const names = repeated(
    product.flatMap(({ text }) => [...text.matchAll(exported)].map(([, name = ""]) => name)),
  );
  expect(names).toEqual([]);
});

test("Conventions: no file patches prototypes", () => {
  expect(matching(/Object\.create\((?!null\))/)).toEqual([]);
});

/**
 * The internals of Connect change without notice. The one file writes errors as Connect would,
 * which the suites of the gRPC port read with Connect's own client and with others.
 */
test("Conventions: only the errors of refused calls use Connect's internals", () => {
  expect(matching(/@connectrpc\/connect\/protocol/)).toEqual(["error-answers.ts"]);
});

test("Conventions: periodic work uses the shared helper, not setInterval", () => {
  const files = matching(/\bsetInterval\(/);
  expect(files.filter((name) => !INTERVALS.includes(name))).toEqual([]);
});

/** V8 allocates them in the old space, where one per call keeps the whole call: decision 51. */
test("Conventions: no function literal is assigned to a property, and no object of a call has a getter", () => {
  const target = String.raw`^\s+[\w.#[\]]+\.#?\w+ (?:\?\?)?= `;
  const literal = String.raw`(?:async )?(?:function|\([^()]*\)(?:: [^=\n]+)? =>|\w+ =>)`;
  const getter = /^ {4,}get \w+\(\)/m; // those of classes are indented by two
  const getters = matching(getter).filter((name) => !GETTERS.includes(name));
  expect([matching(new RegExp(target + literal, "m")), getters]).toEqual([[], []]);
});

test("Conventions: casts through unknown are limited to a few", () => {
  const casts = product.flatMap(({ text }) => text.match(/\bas unknown as\b/g) ?? []);
  expect(casts.length).toBeLessThanOrEqual(MAX_CASTS);
});

test("Conventions: only entry points read environment variables", () => {
  const readers = product.filter(({ text }) => /process\.env/.test(text)).map(({ path }) => path);
  expect(readers.sort()).toEqual([
    "gateway/process.ts",
    "services/platform/process/node.ts",
    "services/process.ts",
  ]);
});
