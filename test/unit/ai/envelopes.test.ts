import {
  brotliCompressSync,
  constants,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";
import { describe, expect, test } from "vitest";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import {
  type ScriptedResponse,
  startScriptedProvider,
} from "../../support/ai/scripted-provider.ts";
import { forSuite } from "../../support/suites.ts";
import { framesOf, promptFor, readReply } from "./support.ts";

const upstream = await forSuite(startScriptedProvider());
const catalogue = readCatalogue();
const providers = await forSuite(openProviders(catalogue, upstream.env, { backoffMs: 1 }));

/**
 * Reads a reply of provider-d, an OpenAI-compatible one, streamed and whole.
 * @returns the outcomes, and the numbers of requests
 */
async function outcomesOf(script: ScriptedResponse[]) {
  const entry = catalogue.providers.find(({ id }) => id === "provider-d");
  const provider = providers.byId.get("provider-d");
  if (!entry || !provider) throw new Error("There is no provider-d.");
  const read = async (isStream: boolean) => {
    const maxTokens = upstream.add(script);
    const prompt = { ...promptFor(entry, "Hi there"), maxTokens, isStream };
    const { text, failure } = await readReply(provider, prompt);
    return { text, failure, calls: upstream.callsOf(maxTokens) };
  };
  return [await read(true), await read(false)];
}

const document = JSON.stringify({
  choices: [{ index: 0, message: { content: "Hi" }, finish_reason: "stop" }],
});
const chunk = (delta: object, finish_reason: string | null) => ({
  choices: [{ index: 0, delta, finish_reason }],
});
const events = `${framesOf(chunk({ content: "Hi" }, null), chunk({}, "stop"))}data: [DONE]\n\n`;
const response = (
  body: string | Uint8Array,
  headers: Record<string, string>,
  status = 200,
): ScriptedResponse => ({ status, headers, steps: [{ bytes: body }, { end: "close body" }] });

/** Labels of bodies, right and wrong. */
const TYPES = [
  ...["application/json", "text/event-stream", "text/event-stream; charset=utf-8"],
  ...["application/x-ndjson", "text/plain", "text/html", "application/octet-stream"],
  ...["text/event-stream, text/event-stream", "nonsense", ""],
];

describe("Envelopes of valid replies", () => {
  const good = Array(2).fill({ text: "Hi", failure: undefined, calls: 1 });

  test.each(TYPES)("the body decides how it is read, not the content type %j", async (type) => {
    const headers: Record<string, string> = type ? { "content-type": type } : {};
    expect(await outcomesOf([response(document, headers)])).toEqual(good);
    expect(await outcomesOf([response(events, headers)])).toEqual(good);
  });

  test.each([200, 201, 202, 203])("status %i is a success", async (status) => {
    const headers = { "content-type": "application/json" };
    expect(await outcomesOf([response(document, headers, status)])).toEqual(good);
  });

  test.each([
    ["a document", document],
    ["events", events],
  ])("gzip without its trailer is read, and half of it is a failure: %s", async (_, body) => {
    const headers = { "content-encoding": "gzip" };
    const cut = gzipSync(body).subarray(0, -8);
    expect(await outcomesOf([response(cut, headers)])).toEqual(good);
    const half = await outcomesOf([response(gzipSync(body).subarray(0, 30), headers)]);
    for (const { text, failure } of half) expect(failure, text).toBeDefined();
  });
});

/** Compressed bodies that have been flushed, but lack their end. */
const WITHOUT_END = [
  {
    encoding: "deflate",
    compress: (body: string) => deflateSync(body, { finishFlush: constants.Z_SYNC_FLUSH }),
  },
  {
    encoding: "deflate",
    // Without zlib's header, as some servers send it and the SDKs' fetch reads it.
    compress: (body: string) => deflateRawSync(body, { finishFlush: constants.Z_SYNC_FLUSH }),
  },
  {
    encoding: "br",
    compress: (body: string) =>
      brotliCompressSync(body, { finishFlush: constants.BROTLI_OPERATION_FLUSH }),
  },
  {
    encoding: "zstd",
    compress: (body: string) => zstdCompressSync(body, { finishFlush: constants.ZSTD_e_flush }),
  },
];

test.each([deflateSync, deflateRawSync])(
  "Envelopes of good replies: deflate with zlib's header and without (%#)",
  async (compress) => {
    const good = Array(2).fill({ text: "Hi", failure: undefined, calls: 1 });
    for (const body of [document, events])
      expect(
        await outcomesOf([response(compress(body), { "content-encoding": "deflate" })]),
      ).toEqual(good);
  },
);

test.each(WITHOUT_END)(
  "Envelopes of good replies: $encoding without its end (%#)",
  async ({ encoding, compress }) => {
    const good = Array(2).fill({ text: "Hi", failure: undefined, calls: 1 });
    for (const body of [document, events])
      expect(
        await outcomesOf([response(compress(body), { "content-encoding": encoding })]),
      ).toEqual(good);
  },
);

describe("Attempts", () => {
  const error = (status: number, headers: Record<string, string>) =>
    response(
      '{"error":{"message":"x"}}',
      { "content-type": "application/json", ...headers },
      status,
    );
  const hi = response(document, {});

  test.each([
    {
      what: "x-should-retry: false",
      first: error(529, { "x-should-retry": "false" }),
      calls: 1,
      failure: "overloaded",
    },
    {
      what: "x-should-retry: false",
      first: error(429, { "x-should-retry": "false" }),
      calls: 1,
      failure: "rate limited",
    },
    { what: "x-should-retry: true", first: error(409, { "x-should-retry": "true" }), calls: 2 },
    { what: "x-should-retry: true", first: error(400, { "x-should-retry": "true" }), calls: 2 },
    {
      what: "x-should-retry: perhaps",
      first: error(409, { "x-should-retry": "perhaps" }),
      calls: 1,
      failure: "rejected the request",
    },
  ])("obey $what: %#", async ({ first, calls, failure }) => {
    const outcome = { text: failure ? "" : "Hi", failure, calls };
    expect(await outcomesOf([first, hi])).toEqual([outcome, outcome]);
  });

  test.each([
    { what: "a name alone", body: '{"error":"insufficient_quota"}', status: 429 },
    { what: "a text", body: "Insufficient balance", status: 429 },
    { what: "an event", body: 'data: {"error":{"code":"insufficient_quota"}}\n\n', status: 429 },
    { what: "FastAPI's detail", body: '{"detail":"Insufficient balance"}', status: 400 },
    { what: "a nested error", body: '{"error":{"error":{"type":"BillingError"}}}', status: 500 },
  ])("an exhausted balance is sent once: $what", async ({ body, status }) => {
    const outcome = { text: "", failure: "quota exhausted", calls: 1 };
    expect(await outcomesOf([response(body, {}, status), hi])).toEqual([outcome, outcome]);
  });

  test.each([408, 504, 522, 524])("with status %i fail as a timeout", async (status) => {
    const outcome = { text: "", failure: "timed out", calls: 3 };
    expect(await outcomesOf([error(status, {})])).toEqual([outcome, outcome]);
  });
});
