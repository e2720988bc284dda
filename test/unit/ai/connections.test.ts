import { describe, expect, test } from "vitest";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import type { ProviderBounds } from "../../../services/ai/providers/provider.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import { type RawExchange, rawResponse, startRawProvider } from "../../support/ai/raw-provider.ts";
import { forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { promptFor, readReply } from "./support.ts";

const GOOD = JSON.stringify({
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 },
});
const CHUNKED = `${GOOD.length.toString(16)}\r\n${GOOD}\r\n0\r\n\r\n`;
const KINDS = [{ isStream: false }, { isStream: true }];

/** Opens a provider of the shipped catalogue at a server that answers with the bytes of a test. */
async function openRaw(
  answer: (exchange: RawExchange) => unknown,
  limits: Partial<ProviderBounds> = {},
) {
  const server = await forTest(startRawProvider(answer));
  const variables = { MISTRAL_API_KEY: "key", MISTRAL_BASE_URL: `${server.url}/v1` };
  const catalogue = readCatalogue();
  const providers = await forTest(openProviders(catalogue, variables, { backoffMs: 1, ...limits }));
  const entry = catalogue.providers.find(({ id }) => id === "provider-d");
  const provider = entry && providers.byId.get(entry.id);
  if (!provider) throw new Error("The provider isn't open.");
  const ask = ({ isStream }: { isStream: boolean }, text = "Hello.") =>
    readReply(provider, { ...promptFor(entry, text), isStream });
  return { server, ask };
}

describe("Provider client: a request that the provider has answered is not sent again", () => {
  const head = (...fields: string[]) => `HTTP/1.1 200 OK\r\n${fields.join("\r\n")}\r\n\r\n`;
  const json = "content-type: application/json";
  test.each([
    {
      what: "both a length and chunks",
      bytes: head(json, `content-length: ${GOOD.length}`, "transfer-encoding: chunked") + CHUNKED,
    },
    {
      what: "two lengths",
      bytes: head(json, `content-length: ${GOOD.length}`, "content-length: 7") + GOOD,
    },
    {
      what: "the same length twice",
      bytes: head(json, `content-length: ${GOOD.length}`, `content-length: ${GOOD.length}`) + GOOD,
    },
    { what: "a length that is not a number", bytes: head(json, "content-length: all") + GOOD },
    { what: "a field name with a space", bytes: head(json, "x y: z") + GOOD },
    // RFC 9112 section 5.2 would have it read. Node's parser does so in its insecure mode only.
    { what: "a field in two lines", bytes: head(json, "x: y", " z") + GOOD },
    { what: "a NUL in a field", bytes: head(json, "x: a\0b") + GOOD },
    { what: "a status that is not a number", bytes: `HTTP/1.1 fine\r\n${json}\r\n\r\n${GOOD}` },
    { what: "no head", bytes: GOOD },
    { what: "an error page without a head", bytes: "<html><body>Bad gateway</body></html>" },
    { what: "the frames of HTTP/2", bytes: "\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80" },
    { what: "a TLS alert", bytes: "\x15\x03\x03\0\x02\x02\x46" },
    { what: "a head of 100 KB", bytes: head(json, `x: ${"y".repeat(100_000)}`) + GOOD },
    {
      what: "a chunk size that is not a number",
      bytes: `${head(json, "transfer-encoding: chunked")}size\r\n${GOOD}`,
    },
  ])("a response with $what is an unreadable reply", async ({ bytes }) => {
    const { server, ask } = await openRaw(({ socket }) => socket.write(bytes, "latin1"));
    for (const kind of KINDS) {
      server.requests.length = 0;
      expect(await ask(kind)).toEqual({ text: "", failure: "unreadable reply" });
      expect(server.requests).toHaveLength(1);
    }
  });

  test.each([
    { what: "a field of 20,000 characters", fields: [`x: ${"y".repeat(20_000)}`] },
    { what: "a head of 60 KB", fields: Array<string>(60).fill(`set-cookie: ${"y".repeat(1_000)}`) },
    { what: "a field without a value", fields: ["x:"] },
    { what: "a field in Latin 1", fields: ["x: caf\xe9"] },
    { what: "a field twice", fields: ["content-type: application/json"] },
  ])("a response with $what is read", async ({ fields }) => {
    const { server, ask } = await openRaw(({ socket }) =>
      socket.write(
        rawResponse(GOOD).replace("content-type", () => [...fields, "content-type"].join("\r\n")),
        "latin1",
      ),
    );
    for (const kind of KINDS) expect(await ask(kind)).toMatchObject({ text: "hi" });
    expect(server.requests).toHaveLength(2);
  });

  test("data after a complete reply is ignored", async () => {
    const { server, ask } = await openRaw(({ socket }) =>
      socket.write(`${rawResponse(GOOD)}HTTP/1.1 and so on`),
    );
    for (const kind of KINDS) expect(await ask(kind)).toMatchObject({ text: "hi" });
    expect(server.requests).toHaveLength(2);
  });
});

describe("Provider client: a connection that the provider has closed", () => {
  const ENDINGS: { how: string; end: (exchange: RawExchange) => unknown }[] = [
    { how: "reset", end: ({ socket }) => socket.resetAndDestroy() },
    { how: "closed", end: ({ socket }) => socket.end() },
  ];
  const good = { text: "hi", usage: { inputTokens: 11, outputTokens: 5 } };
  const unreachable = { text: "", failure: "unreachable" };

  test.each(ENDINGS)(
    "does not count as an attempt if it is $how at the second request",
    async ({ end }) => {
      const { server, ask } = await openRaw(
        (exchange) =>
          exchange.earlier > 0 ? end(exchange) : exchange.socket.write(rawResponse(GOOD)),
        { retries: 0 },
      );
      for (const kind of [...KINDS, ...KINDS]) expect(await ask(kind)).toEqual(good);
      expect(server.requests).toHaveLength(6); // the second and the fourth call found one
    },
  );

  test.each(ENDINGS)(
    "does not count as an attempt if all idle connections are $how",
    async ({ end }) => {
      let isOver = false;
      const { ask } = await openRaw(
        (exchange) => {
          if (isOver && exchange.earlier > 0) end(exchange);
          else setTimeout(() => exchange.socket.write(rawResponse(GOOD)), 50);
        },
        { retries: 0 },
      );
      await Promise.all(times(4, () => ask({ isStream: true })));
      isOver = true;
      expect(await ask({ isStream: true })).toEqual(good);
    },
  );

  test.each(KINDS)(
    "does not count as an attempt if it is reset in the middle of the request",
    async (kind) => {
      const long = "x".repeat(1_000_000);
      let connections = 0;
      const { server, ask } = await openRaw(
        ({ socket }) => {
          connections++;
          socket.write(rawResponse(GOOD));
          socket.once("data", () => socket.resetAndDestroy()); // the first bytes of the next request
        },
        { retries: 0 },
      );
      expect(await ask(kind, long)).toEqual(good);
      expect(await ask(kind, long)).toEqual(good);
      expect({ connections, requests: server.requests.length }).toEqual({
        connections: 2,
        requests: 2,
      });
    },
  );

  test("is not waited for before the request is sent again", async () => {
    const { ask } = await openRaw(
      ({ socket, earlier }) =>
        earlier > 0 ? socket.resetAndDestroy() : socket.write(rawResponse(GOOD)),
      { backoffMs: 3_600_000 },
    );
    expect(await ask({ isStream: false })).toEqual(good);
    expect(await ask({ isStream: false })).toEqual(good);
  });

  test("causes one further request, on a new connection", async () => {
    let answers = 1;
    const { server, ask } = await openRaw(
      ({ socket }) => (answers-- > 0 ? socket.write(rawResponse(GOOD)) : socket.resetAndDestroy()),
      { retries: 0 },
    );
    expect(await ask({ isStream: false })).toEqual(good);
    expect(await ask({ isStream: false })).toEqual(unreachable);
    expect(server.requests).toHaveLength(3);
    expect(await ask({ isStream: false })).toEqual(unreachable); // on a new connection at once
    expect(server.requests).toHaveLength(4);
  });

  test.each([
    { what: "a part of the head", bytes: "HTTP/1.1 200 OK\r\ncontent-ty" },
    { what: "the interim response", bytes: "HTTP/1.1 100 Continue\r\n\r\n" },
  ])("counts as an attempt if it has sent $what", async ({ bytes }) => {
    const { server, ask } = await openRaw(
      ({ socket, earlier }) =>
        earlier > 0 ? socket.write(bytes, () => socket.end()) : socket.write(rawResponse(GOOD)),
      { retries: 0 },
    );
    expect(await ask({ isStream: false })).toEqual(good);
    expect(await ask({ isStream: false })).toEqual(unreachable);
    expect(server.requests).toHaveLength(2);
  });
});
