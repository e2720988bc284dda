import http2 from "node:http2";
import { create, type DescField, type DescMessage, ScalarType, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { PASSWORD, type SignedIn } from "../../support/accounts.ts";
import { startSuiteApp } from "../../support/app.ts";
import { failureOf, framed, head, send } from "../../support/grpc.ts";
import { forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { routes } from "../admin/routes.ts";

const app = await startSuiteApp({ env: { RATE_LIMITS: "off", EMAIL_SIGN_IN: "code" } });
const { paths } = (await (await fetch(`${app.url}/openapi.json`)).json()) as {
  paths: Record<string, Record<string, Operation>>;
};
/** A connection. Proxies close one after a thousand requests. */
const connect = () => forTest(http2.connect(app.grpcUrl));

/** Maximum number of requests of an operation, of some 300. A full run takes minutes. */
const MOST_REQUESTS = process.env.TEST_FULL ? 100 : 5;

/** Of ECMAScript's "JSON.parse source text access", which TypeScript does not declare yet. */
const { rawJSON } = JSON as typeof JSON & { rawJSON(text: string): object };

/** Stands for an array that is nested 5,000 times. */
const DEEP = "nested 5,000 times";
const nested = "[".repeat(5_000) + "]".repeat(5_000);
const jsonOf = (value: unknown) => JSON.stringify(value)?.replace(JSON.stringify(DEEP), nested);

const UUID = "0193a5c2-7b1e-7c3a-9f4d-2b6e8a1c5d70";
const TEXTS = [
  ...[
    "",
    " ",
    "\0",
    "a\0b",
    "\n",
    "\u200b",
    "\u202e",
    "\u2028",
    "😀",
    "İ",
    "ﬁ",
    "e\u0301",
    "\uffff",
  ],
  ...["x".repeat(300), "ä".repeat(3_000), "9".repeat(400), "null", "true", "NaN", "Infinity"],
  ...[
    "-1",
    "0",
    "1",
    "1e3",
    "1e-400",
    "00",
    "+1",
    ".5",
    "1,5",
    "１",
    "0x10",
    "99999999999999999999",
  ],
  ...["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"],
  ...["..", "../../etc/passwd", "/", "%00", "%", "'; drop table users; --", "\\", '"', "[]", "{}"],
  ...[
    "javascript:alert(1)",
    "data:,",
    "http://[::1",
    "https://example.com:99999/",
    "//x",
    "\ud800",
  ],
  ...["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2026-02-30T00:00:00Z"],
  ...["+275760-09-13T00:00:00.000Z", "-000001-01-01T00:00:00Z", "infinity", "2026-11-28"],
  ...["00000000-0000-0000-0000-000000000000", UUID.toUpperCase(), `{${UUID}}`, UUID.slice(1)],
  ...["a@b", "a@b@c.de", "ann@xn--.com", "ann@münchen.example", "@", "a@b.example\r\nBcc: c@d.ef"],
  ...[
    "user",
    "admin",
    "key",
    "deployment",
    "model-a-1",
    "provider-a",
    "cost",
    "day",
    "en",
    "de-DE",
  ],
];
/** JSON of every type, and some that JavaScript cannot write. */
const VALUES: readonly unknown[] = [
  ...[null, true, false, 0, -1, 1, 1.5, 2 ** 31, 2 ** 53, [], [null], [[]], {}, [{}], [1], ["a"]],
  ...["1e400", "-0", "1e-400", "123456789012345678901", '"\\udc00"', '"\\u0000"'].map(rawJSON),
  ...[{ constructor: { prototype: 1 } }, JSON.parse('{"__proto__":{"a":1}}'), DEEP, ...TEXTS],
];
const PATHS = [
  ...TEXTS.filter(isPath).map(encodeURIComponent),
  "%ff",
  "%ed%a0%80",
  "a%2fb",
  "%2e%2e",
];

/** A lone surrogate has no encoding, and an empty segment is another path. */
function isPath(text: string): boolean {
  return text !== "" && text.isWellFormed();
}

/** Values with which an operation gets further than with those of the documentation. */
const KNOWN: Record<string, unknown> = {
  ...{ password: PASSWORD, currentPassword: PASSWORD, email: "ann@example.com", cursor: undefined },
  ...{ models: undefined, setupToken: undefined, page: undefined, metadata: { plan: ["a"] } },
};
/** Fields of foreign APIs, which the documentation leaves to their references. */
const FOREIGN = {
  ...{ stream: false, temperature: 1, stop: ["a"], n: 1, user: "a", metadata: { a: "b" } },
  ...{ tools: [{ type: "function", function: { name: "f" } }], tool_choice: "auto", system: "a" },
  ...{ response_format: { type: "text" }, stream_options: { include_usage: true }, store: false },
};

type Schema = { properties?: Record<string, { examples?: unknown[] }> };
type Parameter = { name: string; in: string };
type Operation = {
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema; example?: object }> };
};
/** A request. Its body is JSON unless `type` says otherwise. */
type Request = { verb: string; path: string; body?: string | undefined; type?: string };

/** The body of an operation with a value for every field. */
function bodyOf({ requestBody }: Operation): Record<string, unknown> | undefined {
  const { schema, example } = requestBody?.content["application/json"] ?? {};
  if (!schema) return undefined;
  if (example) return { ...example, ...FOREIGN };
  const properties = Object.entries(schema.properties ?? {});
  return Object.fromEntries(
    properties.map(([name, { examples = [] }]) => [
      name,
      name in KNOWN ? KNOWN[name] : examples[0],
    ]),
  );
}

/** A value with one of its parts replaced, in every way and at every place. */
function* replacements(value: unknown, others: readonly unknown[]): Generator<unknown> {
  yield* others;
  if (typeof value !== "object" || value === null) return;
  for (const [name, part] of Object.entries(value))
    for (const other of replacements(part, others))
      yield Array.isArray(value)
        ? value.map((each, index) => (String(index) === name ? other : each))
        : { ...value, [name]: other };
}

/** Requests of an operation that are wrong in one respect. */
function* requestsOf(verb: string, template: string, operation: Operation): Generator<Request> {
  const path = template.replace(/\{\w+\}/g, UUID);
  const body = bodyOf(operation);
  const text = jsonOf(body);
  if (template !== path)
    for (const other of PATHS)
      yield { verb, path: template.replace(/\{\w+\}/g, other), body: text };
  for (const { name } of (operation.parameters ?? []).filter((each) => each.in === "query")) {
    for (const other of PATHS) yield { verb, path: `${path}?${name}=${other}`, body: text };
    for (const other of ["", "=", "[]=1", "=1&x=%zz"])
      yield { verb, path: `${path}?${name}${other}` };
    yield { verb, path: `${path}?${name}=1&${name}=2` };
  }
  if (verb === "GET") return;
  for (const type of ["text/plain", "application/json; charset=utf-16", "multipart/form-data", ""])
    yield { verb, path, body: text ?? "{}", type };
  for (const broken of ["", "{", "[1", "\ufeff{}", "nul", '{"a":1}{"a":1}', "\0", '{"\\ud800":1}'])
    yield { verb, path, body: broken };
  for (const other of replacements(body ?? {}, VALUES)) yield { verb, path, body: jsonOf(other) };
}

/** Some of the items, evenly spread, and others in each run. */
function sampleOf<T>(items: Iterable<T>): T[] {
  const all = [...items];
  if (all.length <= MOST_REQUESTS) return all;
  const step = all.length / MOST_REQUESTS;
  const first = Math.random() * step;
  return times(MOST_REQUESTS, (index) => all[Math.floor(first + index * step)] as T);
}

/** What does not tell of a mistake of the product. */
const isExpected = ({
  status,
  body,
}: {
  status: number;
  body: { code?: string; error?: unknown };
}) => status < 500 || body.code === "PROVIDER_ERROR" || isOfProvider(body.error);
/** A failure of the provider in the forms of OpenAI and Anthropic. */
const isOfProvider = (error: unknown) =>
  /The AI provider \S+ failed/.test(JSON.stringify(error ?? ""));

/** A session that begins again once it has ended. */
function createCaller(isAdmin: boolean) {
  let session: SignedIn | undefined;
  return {
    current: async () => (session ??= isAdmin ? await app.signInAdmin() : await app.signIn()),
    forget() {
      session = undefined;
    },
  };
}

/** The log lines about errors of the server. */
const mistakes = () => app.logs.filter((line) => /"level":[56]0\b/.test(line));

const operations = Object.entries(paths).flatMap(([path, verbs]) =>
  Object.entries(verbs).map(([verb, operation]) => ({
    verb: verb.toUpperCase(),
    path,
    operation,
  })),
);

test.each(operations)(
  "$verb $path: no request causes a server error",
  async ({ verb, path, operation }) => {
    const caller = createCaller(path.startsWith("/admin"));
    const problems: string[] = [];
    for (const request of sampleOf(requestsOf(verb, path, operation))) {
      const { headers, browser } = await caller.current();
      const { body, type = "application/json" } = request;
      const answer = await browser
        .send(verb, request.path, body, {
          ...headers,
          ...(body !== undefined && { "content-type": type }),
        })
        .catch((error: Error) => ({ status: 999, body: { code: error.message } }));
      if (answer.status === 401) caller.forget();
      if (!isExpected(answer))
        problems.push(
          `${answer.status} ${JSON.stringify(answer.body)} ${JSON.stringify(request).slice(0, 400)}`,
        );
    }
    expect(problems.slice(0, 20)).toEqual([]);
    expect(mistakes()).toEqual([]);
  },
);

const TIMES = [
  { seconds: 2n ** 62n, nanos: 0 },
  { seconds: -(2n ** 62n), nanos: 0 },
  { seconds: 0n, nanos: -1 },
  { seconds: 253_402_300_800n, nanos: 2_000_000_000 },
];
/** Values of a field in protobuf. */
function valuesOf(field: DescField, depth: number): readonly unknown[] {
  const scalar =
    field.fieldKind === "scalar" || field.fieldKind === "list" ? field.scalar : undefined;
  switch (scalar) {
    case ScalarType.STRING:
      return TEXTS;
    case ScalarType.BOOL:
      return [true, false];
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return [Number.NaN, Number.POSITIVE_INFINITY, -0, 1e308, -1];
    case ScalarType.BYTES:
      return [new Uint8Array(), Uint8Array.of(255), Buffer.from("{}"), Buffer.from(nested)];
    case ScalarType.INT64:
    case ScalarType.UINT64:
      return [0n, 1n, 2n ** 62n];
    case ScalarType.UINT32:
      return [0, 1, 2 ** 32 - 1];
    case undefined:
      if (field.message?.typeName === "google.protobuf.Timestamp") return TIMES;
      if (field.message?.typeName === "google.protobuf.Struct")
        return [{}, { a: null }, { __proto__: 1, constructor: "\0" }, { a: Number.MAX_VALUE }];
      return field.message ? [...initsOf(field.message, depth + 1)] : [-1, 0, 1, 99];
    default:
      return [0, 1, -1, 2 ** 31 - 1, -(2 ** 31)];
  }
}

/** Messages with a plausible value of every field but one. */
function* initsOf(schema: DescMessage, depth = 0): Generator<Record<string, unknown>> {
  const plausible: Record<string, unknown> = {};
  for (const { localName, fieldKind, scalar, oneof } of schema.fields)
    if (fieldKind === "scalar" && scalar === ScalarType.STRING && !oneof)
      plausible[localName] = localName in KNOWN ? KNOWN[localName] : UUID;
  yield {};
  yield plausible;
  if (depth > 2) return;
  for (const field of schema.fields)
    for (const value of valuesOf(field, depth))
      yield {
        ...plausible,
        [field.localName]: field.fieldKind === "list" ? [value, value] : value,
      };
}

/** The bytes of requests of a method: messages, and what is none. */
function* bytesOf(input: DescMessage): Generator<Uint8Array> {
  for (const init of initsOf(input)) {
    try {
      yield toBinary(input, create(input, init as never));
    } catch {
      // the library refuses to write it
    }
  }
  for (const { number } of input.fields)
    for (const wire of [0, 1, 2, 5])
      for (const rest of [
        [],
        [1],
        [2, 0xff, 0xfe],
        [0xff, 0xff, 0xff, 0xff, 0x0f],
        [3, 0xed, 0xa0, 0x80],
      ])
        yield Buffer.from([((number << 3) | wire) & 0x7f, ...rest]);
}

const SURPRISES = [Code.Unknown, Code.Internal, Code.DataLoss, Code.Unavailable];

test.each(routes)("$name: no message causes a server error", async ({ service, name, path }) => {
  const caller = createCaller(path.startsWith("/admin"));
  const input = service.methods.find((method) => method.name === name)?.input as DescMessage;
  const session = await connect();
  const problems: string[] = [];
  for (const message of sampleOf(bytesOf(input))) {
    const { headers } = await caller.current();
    const to = { ...head(`/${service.typeName}/${name}`), ...headers };
    const answer = await send(session, to, framed(message));
    const status = { ...answer.head, ...answer.trailers }["grpc-status"];
    if (status === "0") continue;
    const { code, reason } = failureOf(answer);
    if (code === Code.Unauthenticated) caller.forget();
    if (SURPRISES.includes(code) && reason !== Reason.PROVIDER_ERROR)
      problems.push(`${Code[code]} ${Buffer.from(message).toString("hex").slice(0, 400)}`);
  }
  expect(problems.slice(0, 20)).toEqual([]);
  expect(mistakes()).toEqual([]);
});
