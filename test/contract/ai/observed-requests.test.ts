import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { DialectEncoder, Event } from "../../../scripts/simulators/dialect-encoder.ts";
import { type RawExchange, startRawProvider } from "../../support/ai/raw-provider.ts";
import { startSuiteApp } from "../../support/app.ts";
import { forSuite } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { CODECS, REQUEST, TOKENS } from "../../unit/ai/support.ts";
import { isStreamed, PLAYED_CALLS, playsOf } from "./observed/calls.ts";
import {
  OBSERVED,
  OBSERVED_REPLIES,
  OBSERVED_REQUESTS,
  type ObservedRequest,
  type Refusal,
} from "./observed/cases.ts";

/** A request as its server understands it. */
type Received = {
  path: string;
  headers: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: whatever the product sends
  body: any;
};

const isBlank = (text: string) => text.trim() === "";
const RULES: Record<Refusal["when"], (request: Received) => boolean> = {
  "a text is blank": ({ body: { system = "-", messages } }) =>
    [system, ...messages.map(({ content }: { content: string }) => content)].some(isBlank),
  "no user-agent": ({ headers }) => !headers["user-agent"],
  "no accept": ({ headers }) => !headers.accept,
  "a system instruction": ({ body }) => "systemInstruction" in body,
};

function receivedIn(request: string): Received {
  const [head = "", body = ""] = request.split("\r\n\r\n");
  const [start = "", ...fields] = head.split("\r\n");
  const headers = fields.map((field) => {
    const [, name = "", value = ""] = /^([^:]+): *(.*)$/.exec(field) ?? [];
    return [name.toLowerCase(), value];
  });
  const [, path = ""] = start.split(" ");
  return { path, headers: Object.fromEntries(headers), body: JSON.parse(body) };
}

const isStream = ({ path, body }: Received) => path.includes(":stream") || body.stream === true;

type Answer = { status: number; type: string; body: string; head?: string[]; isChunked?: boolean };

/** The bytes of a response. They may be no HTTP. */
function bytesOf({ status, type, body, head, isChunked = false }: Answer): string {
  const length = Buffer.byteLength(body);
  const fields = (head ?? ["content-length: {length}"]).map((field) =>
    field.replace("{length}", `${length}`).replace("{20000 characters}", "x".repeat(20_000)),
  );
  const framed = isChunked ? `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body;
  return [`HTTP/1.1 ${status} -`, `content-type: ${type}`, ...fields, "", framed].join("\r\n");
}

const frameOf = ({ event, data }: Event) => `${event ? `event: ${event}\n` : ""}data: ${data}\n\n`;

function goodAnswer(encoder: DialectEncoder, request: Received): Answer {
  if (!isStream(request)) {
    const body = JSON.stringify(encoder.whole("hi", TOKENS, REQUEST));
    return { status: 200, type: "application/json", body };
  }
  const body = encoder.events(["h", "i"], TOKENS, REQUEST).map(frameOf).join("");
  return { status: 200, type: "text/event-stream", body };
}

function answerTo({ dialect, upstream }: ObservedRequest, request: Received): Answer {
  const { refusals = [], path, streamPath, head, isChunked } = upstream;
  const expectedPath = isStream(request) ? streamPath : path;
  if (expectedPath && request.path !== expectedPath)
    return { status: 404, type: "application/json", body: "{}" };
  const refusal = refusals.find(({ when }) => RULES[when](request));
  if (refusal) return refusal;
  const [, encoderOf] = CODECS.find(([name]) => name === dialect) ?? CODECS[0];
  return {
    ...goodAnswer(encoderOf("key"), request),
    ...(head && { head }),
    ...(isChunked && { isChunked }),
  };
}

/** Starts a server that keeps the rules of an input. */
async function startRuledProvider(input: ObservedRequest) {
  let resets = 0;
  const reset = ({ socket }: RawExchange) => {
    resets++;
    socket.resetAndDestroy();
  };
  const server = await forSuite(
    startRawProvider((exchange) => {
      if (input.upstream.resetsReusedConnections && exchange.earlier > 0) return reset(exchange);
      return exchange.socket.write(bytesOf(answerTo(input, receivedIn(exchange.request))));
    }),
  );
  return { ...server, resets: () => resets };
}

/** Writes a catalogue in which a provider has one model. */
function catalogueWith({ request, model }: ObservedRequest): string {
  const neutral = new URL("../../../services/ai/catalogue/neutral.json", import.meta.url);
  const catalogue = JSON.parse(readFileSync(neutral, "utf8"));
  for (const provider of catalogue.providers)
    if (provider.id === request.provider) provider.models = [model];
  const path = join(temporaryFolder(), "catalogue.json");
  writeFileSync(path, JSON.stringify(catalogue));
  return path;
}

function envOf(input: ObservedRequest, origin: string): Record<string, string> {
  const names = ["OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL"];
  const variables = names.flatMap((name) => [
    [`${name}_API_KEY`, "key"],
    [`${name}_BASE_URL`, origin],
  ]);
  const given = Object.entries(input.env ?? {}).map(([name, value]) => [
    name,
    value.replace("{origin}", origin),
  ]);
  const catalogue = input.model ? [["AI_CATALOG", catalogueWith(input)]] : [];
  return Object.fromEntries([["RATE_LIMITS", "off"], ...variables, ...catalogue, ...given]);
}

/** What a call must return. A stream has no finish reason. */
function outcomeOf(call: string, { text = "", end, failureSays, refused }: Expected) {
  if (refused) return { text, failure: expect.any(String) };
  if (failureSays) return { text, failure: failureSays };
  return isStreamed(call) ? { text } : { text, end };
}

type Expected = ObservedRequest["expected"];

function expectSent(
  request: Received,
  { headers = {}, body = {}, lacks = [] }: NonNullable<Expected["sent"]>,
) {
  for (const [name, pattern] of Object.entries(headers))
    expect(request.headers[name]).toMatch(new RegExp(pattern));
  expect(request.body).toMatchObject(body);
  for (const field of lacks) expect(request.body).not.toHaveProperty(field);
}

describe.each(OBSERVED_REQUESTS)("Observed request $id", async (input) => {
  const { request, expected, times = 1 } = input;
  const server = await startRuledProvider(input);
  const app = await startSuiteApp({ env: envOf(input, server.url) });

  test.each(PLAYED_CALLS)("%s: is accepted, or rejected by the product itself", async (call) => {
    const account = await app.signIn();
    server.requests.length = 0;
    for (let turn = 0; turn < times; turn++) {
      const outcome = await playsOf(app)[call](request, account);
      expect(outcome).toMatchObject(outcomeOf(call, expected));
      expect(outcome.failure === undefined).toBe(expected.text !== undefined);
    }
    if (expected.upstreamCalls !== undefined)
      expect(server.requests).toHaveLength(expected.upstreamCalls);
    if (expected.hasResets) expect(server.resets()).toBeGreaterThan(0);
    if (expected.sent) expectSent(receivedIn(server.requests.at(-1) ?? ""), expected.sent);
  });

  test.runIf(expected.refused)(
    "POST /ai/chat, POST /ai/stream: 400 names the rejected field",
    async () => {
      const { post } = await app.signIn();
      for (const path of ["/ai/chat", "/ai/stream"])
        expect(await post(path, request)).toMatchObject({
          status: 400,
          body: { code: "VALIDATION_FAILED", violations: [{ field: expected.refused }] },
        });
    },
  );
});

test("Observed inputs: each one is played, as a reply or as a request", () => {
  const played = [...OBSERVED_REPLIES, ...OBSERVED_REQUESTS].map(({ id }) => id);
  expect(new Set(played).size).toBe(OBSERVED.length);
  expect(played.sort()).toEqual(OBSERVED.map(({ id }) => id).sort());
  expect(played.length).toBeGreaterThanOrEqual(58);
});
