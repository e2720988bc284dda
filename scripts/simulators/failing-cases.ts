import { setImmediate as nextTurn, setTimeout as wait } from "node:timers/promises";
import { billedTokens, type ErrorName } from "./dialect-encoder.ts";
import { type Case, type Exchange, encode, prefix, respond, send, write } from "./script.ts";

const success = ({ chatRequest }: Exchange) => ({
  "content-type": chatRequest.stream ? "text/event-stream" : "application/json",
});

const json = (
  { response }: Exchange,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
) =>
  void response
    .writeHead(status, { "content-type": "application/json", ...headers })
    .end(JSON.stringify(body));

/** Sends the first part of a good reply. */
const begin = async (exchange: Exchange) => {
  const { response, encoder, chatRequest, events } = exchange;
  response.writeHead(200, success(exchange));
  if (!chatRequest.stream) return write(response, '{"id":"half of a rep');
  for (const event of prefix(events)) await write(response, encode(event, encoder.lineEnd));
};
/** Sends the first part of a good reply, then closes the connection. */
const midway = (end: (exchange: Exchange) => unknown): Case => ({
  answer: async (exchange) => {
    await begin(exchange);
    await nextTurn();
    end(exchange);
  },
});
/** @param pause waits between two parts, if given */
const forever = async (
  { response }: Exchange,
  tick: () => string,
  pause: () => Promise<unknown> = nextTurn,
) => {
  while (!response.destroyed) {
    await write(response, tick());
    await pause();
  }
};
const PING_MS = 20;
const error =
  (name: ErrorName, headers: Record<string, string> = {}, times = Number.POSITIVE_INFINITY) =>
  (exchange: Exchange) => {
    if (exchange.attempt > times) return sendGood(exchange);
    const { status, body } = exchange.encoder.error(name, "sk-echo-of-a-key http://internal.host");
    json(exchange, status, body, headers);
  };
const httpDate = (inMs: number) => new Date(Date.now() + inMs).toUTCString();
const page = (status: number) => (exchange: Exchange) => {
  exchange.response
    .writeHead(status, { "content-type": "text/html" })
    .end("<html><body>sk-echo-of-a-key</body></html>");
};
const withHalfOfAnUmlaut = (part: Buffer) =>
  Buffer.from(part.toString("latin1").replaceAll("\xc3\xbc", "\xc3 "), "latin1");
const sendGood = (exchange: Exchange) => respond({}, exchange);
/** Fails at the first attempt only. */
const once = (fail: (exchange: Exchange) => Promise<void> | void): Case => ({
  answer: (exchange) => (exchange.attempt === 1 ? fail(exchange) : sendGood(exchange)),
});
const overloaded: Case["whole"] = (_, encoder) => encoder.error("overloaded").body;

/** The first attempts fail, a later one succeeds. */
export const PASSING: Record<string, Case> = {
  "overloaded-once": { answer: error("overloaded", {}, 1) },
  "overloaded-twice": { answer: error("overloaded", {}, 2) },
  "broken-once": { answer: error("broken", {}, 1) },
  "rate-limited-once": { answer: error("rate-limited", { "retry-after": "0" }, 1) },
  "rate-limited-odd-once": { answer: error("rate-limited", { "retry-after": "-5" }, 1) },
  "rate-limited-vaguely-once": {
    answer: error("rate-limited", { "retry-after": "not before 2099" }, 1),
  },
  "retry-after": {
    answer: (exchange) =>
      error("rate-limited", { "retry-after-ms": exchange.argument }, 1)(exchange),
  },
  "retry-at": { answer: error("rate-limited", { "retry-after": httpDate(-1_000) }, 1) },
  "bad-gateway-once": once(page(502)),
  "request-timeout-once": once(page(408)),
  "reset-once": once(({ response }) => void response.socket?.resetAndDestroy()),
  "closed-once": once(({ response }) => void response.socket?.destroy()),
  "reset-after-headers-once": once(async (exchange) => {
    exchange.response.writeHead(200, success(exchange)).flushHeaders();
    await nextTurn();
    exchange.response.socket?.resetAndDestroy();
  }),
};

/** The reply never arrives, or ends early. */
export const FAILURES: Record<string, Case> = {
  invalid: { answer: error("invalid") },
  "bad-key": { answer: error("bad-key") },
  "no-credit": { answer: error("no-credit") },
  forbidden: { answer: error("forbidden") },
  "not-found": { answer: error("not-found") },
  "too-large": { answer: page(413) },
  quota: { answer: error("quota") },
  "rate-limited": { answer: error("rate-limited") },
  "retry-tomorrow": { answer: error("rate-limited", { "retry-after": "86400" }) },
  "retry-at-tomorrow": { answer: error("rate-limited", { "retry-after": httpDate(86_400_000) }) },
  broken: { answer: error("broken") },
  overloaded: { answer: error("overloaded") },
  timeout: { answer: error("timeout") },
  "error-in-array": {
    answer: (exchange) => {
      const { status, body } = exchange.encoder.error("forbidden");
      json(exchange, status, [body]);
    },
  },
  "html-502": { answer: page(502) },
  "html-200": { answer: page(200) },
  "error-200": {
    answer: (exchange) => json(exchange, 200, exchange.encoder.error("rate-limited").body),
  },
  "no-content": { answer: ({ response }) => void response.writeHead(204).end() },
  empty: { answer: (exchange) => void exchange.response.writeHead(200, success(exchange)).end() },
  redirect: {
    answer: ({ response, argument }) => void response.writeHead(307, { location: argument }).end(),
  },
  reset: { answer: ({ response }) => void response.socket?.resetAndDestroy() },
  "error-event": {
    events: (events, encoder) => [...prefix(events), encoder.errorEvent(), ...events.slice(-1)],
    whole: overloaded,
  },
  "error-event-only": {
    events: (_, encoder) => [encoder.errorEvent(), { data: "[DONE]" }],
    whole: overloaded,
  },
  "error-event-named": {
    events: (events, encoder) => [
      ...prefix(events),
      { event: "error", data: JSON.stringify({ message: "sk-echo-of-a-key" }) },
      encoder.delta("never seen"),
    ],
    whole: overloaded,
  },
  "error-event-nameless": {
    events: (events, encoder) => [...prefix(events), { data: encoder.errorEvent().data }],
    whole: overloaded,
  },
  "malformed-event": {
    events: (events, encoder) => [
      ...prefix(events),
      { data: '{"sk-echo-of-a-key": ' },
      encoder.delta("never seen"),
    ],
    whole: () => undefined,
  },
  "broken-utf8": {
    send: (exchange, parts, headers) => send(exchange, parts.map(withHalfOfAnUmlaut), headers),
  },
  "done-only": { events: () => [{ data: "[DONE]" }], whole: () => ({ id: "empty" }) },
  "null-event": { events: (events) => [...prefix(events), { data: "null" }], whole: () => null },
  blocked: {
    events: (events, { blocked }) => [...prefix(events), ...blocked.events],
    whole: (_, { blocked }) => blocked.whole,
  },
  "reset-midway": midway(({ response }) => response.socket?.resetAndDestroy()),
  "closed-midway": midway(({ response }) => response.socket?.end()),
  "ended-midway": midway(({ response }) => response.end()),
  "half-an-event": midway(({ response, encoder, chatRequest }) =>
    response.end(chatRequest.stream ? encode(encoder.delta("never seen"), "\n").slice(0, -8) : ""),
  ),
  silent: { answer: () => {} },
  "silent-after-headers": {
    answer: (exchange) => exchange.response.writeHead(200, success(exchange)).flushHeaders(),
  },
  "silent-in-error": {
    answer: ({ response, encoder }) => {
      response
        .writeHead(encoder.error("overloaded").status, { "content-type": "application/json" })
        .write('{"error":');
    },
  },
  "silent-midway": { answer: (exchange) => begin(exchange) },
  "silent-midway-billed": { tokens: billedTokens, answer: (exchange) => begin(exchange) },
  "reset-midway-billed": {
    ...midway(({ response }) => response.socket?.resetAndDestroy()),
    tokens: billedTokens,
  },
  "silent-json-instead": {
    answer: (exchange) =>
      begin({ ...exchange, chatRequest: { ...exchange.chatRequest, stream: false } }),
  },
  "pings-midway": {
    answer: async (exchange) => {
      await begin(exchange);
      const ping = `: ping\n\n${exchange.encoder.idle.map((event) => encode(event, "\n")).join("")}`;
      await forever(
        exchange,
        () => (exchange.chatRequest.stream ? ping : "\n"),
        () => wait(PING_MS),
      );
    },
  },
  endless: {
    answer: async (exchange) => {
      exchange.response.writeHead(200, success(exchange));
      await forever(exchange, () =>
        encode(exchange.encoder.delta("forever and ever ".repeat(64)), "\n"),
      );
    },
  },
  "endless-event": {
    answer: async (exchange) => {
      await begin(exchange);
      if (exchange.chatRequest.stream) await write(exchange.response, "data: ");
      await forever(exchange, () => "x".repeat(65_536));
    },
  },
};
