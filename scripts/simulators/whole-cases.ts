import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { billedTokens, type Event } from "./dialect-encoder.ts";
import { type Case, type Exchange, encode, respond, send, sendParts, write } from "./script.ts";

/** The pause between two numbers, or two thoughts, in ms. */
const COUNTING_MS = 20;
/** A placeholder for the text of a large reply, which is sent in parts. */
const TEXT = "the text";
const LARGE_PART = 65_536;
/**
 * Writes a response to the socket, in a form that Node's server does not write, and closes the
 * connection.
 */
async function raw(exchange: Exchange, head: string, parts: (string | Buffer)[]): Promise<void> {
  const { socket } = exchange.response;
  if (!socket) return;
  socket.setNoDelay(true);
  for (const part of [`${head}\r\nconnection: close\r\n\r\n`, ...parts]) {
    if (socket.destroyed) return;
    socket.write(part);
    await nextTurn();
  }
  socket.end();
}

const cutInTwo = (text: string) => [text.slice(0, 1), text.slice(1)];
const chunked = (parts: Buffer[]) =>
  parts.flatMap((part) => [
    ...cutInTwo(`${part.length.toString(16)}\r\n`),
    part,
    ...cutInTwo("\r\n"),
  ]);

/** Unusual frames and bytes; the reply is complete. */
export const SHAPES: Record<string, Case> = {
  plain: {},
  billed: { tokens: billedTokens },
  bytes: {
    async send({ response }, parts, headers) {
      response.writeHead(200, headers);
      response.socket?.setNoDelay(true);
      for (const byte of Buffer.concat(parts)) {
        await write(response, Buffer.of(byte));
        await nextTurn();
      }
      response.end();
    },
  },
  comments: {
    encode: (event, end) => `: OPENROUTER PROCESSING${end}${encode(event, end)}:${end}${end}`,
  },
  "other-fields": {
    encode: (event, end) => `id: 7${end}retry: 100${end}unheard-of: x${end}${encode(event, end)}`,
  },
  "multi-line": {
    encode: ({ event, data }, end) => {
      const pretty = data.startsWith("{")
        ? JSON.stringify(JSON.parse(data), null, 1).split("\n")
        : [data];
      return [
        ...(event ? [`event: ${event}`] : []),
        ...pretty.map((line) => `data: ${line}`),
        "",
        "",
      ].join(end);
    },
  },
  "no-space": {
    encode: (event, end) =>
      encode(event, end).replace("data: ", "data:").replace("event: ", "event:"),
  },
  bom: { encode: (event, end, index) => (index === 0 ? "\ufeff" : "") + encode(event, end) },
  idle: {
    events: (events, { idle }) =>
      events.flatMap((event, index) => (index === 0 ? [event] : [...idle, event])),
  },
  thinking: {
    events: (events, { thinking }) =>
      events.flatMap((event, index) => (index === 0 ? [event] : [thinking, event])),
  },
  calling: {
    events: (_, { calling }) => [...calling.events],
    whole: (_, { calling }) => calling.whole,
  },
  "calling-bytes": {
    events: (_, { calling }) => [...calling.events],
    send: (...reply) => SHAPES.bytes?.send?.(...reply) ?? send(...reply),
  },
  "no-last-blank-line": {
    send: (exchange, parts, headers) => {
      const last = parts.at(-1)?.toString().trimEnd() ?? "";
      return send(exchange, [...parts.slice(0, -1), Buffer.from(last)], headers);
    },
  },
  gzip: {
    headers: { "content-encoding": "gzip" },
    send: (exchange, parts, headers) => send(exchange, [gzipSync(Buffer.concat(parts))], headers),
  },
  "no-type": { send: (exchange, parts) => send(exchange, parts, {}) },
  trailers: {
    async send(exchange, parts, headers) {
      await sendParts(exchange, parts, { ...headers, trailer: "x-checksum" });
      exchange.response.addTrailers({ "x-checksum": "0" });
      exchange.response.end();
    },
  },
  continue: {
    send: (exchange, parts, headers) => {
      exchange.response.writeContinue();
      exchange.response.writeProcessing();
      return send(exchange, parts, headers);
    },
  },
  "split-chunk-sizes": {
    send: (exchange, parts, headers) =>
      raw(
        exchange,
        `HTTP/1.1 200 OK\r\ncontent-type: ${headers["content-type"]}; charset=utf-8\r\ntransfer-encoding: chunked`,
        [...chunked(parts), "0\r\n\r\n"],
      ),
  },
  "http-1.0": {
    send: (exchange, parts, headers) =>
      raw(exchange, `HTTP/1.0 200 OK\r\nContent-Type: ${headers["content-type"]}`, parts),
  },
  charset: {
    send: (exchange, parts, headers) =>
      send(exchange, parts, {
        ...headers,
        "content-type": `${headers["content-type"]}; charset=UTF-8`,
      }),
  },
  "ended-later": {
    async send(exchange, parts, headers) {
      await sendParts(exchange, parts, headers);
      await sleep(20);
      exchange.response.end();
    },
  },
  "kept-open": { send: sendParts },
  "reset-after-finish": {
    async send(exchange, parts, headers) {
      await sendParts(exchange, parts, headers);
      await nextTurn();
      exchange.response.socket?.resetAndDestroy();
    },
  },
};

const withMaximum = (json: string) =>
  json
    .replace('"finish_reason":"stop"', '"finish_reason":"length"')
    .replace('"stop_reason":"end_turn"', '"stop_reason":"max_tokens"')
    .replace('"status":"completed","error"', '"status":"incomplete","error"')
    .replace('"incomplete_details":null', '"incomplete_details":{"reason":"max_output_tokens"}')
    .replace('"finishReason":"STOP"', '"finishReason":"MAX_TOKENS"');
/** A reply that ended at the maximum number of tokens. */
const AT_MAXIMUM: Case = {
  events: (events) => events.map((event) => ({ ...event, data: withMaximum(event.data) })),
  whole: (whole) => JSON.parse(withMaximum(JSON.stringify(whole))),
};

/** Unusual text; the reply is complete. */
export const CONTENTS: Record<string, Case> = {
  "usage-twice": {
    events: (events) => twice(events, ({ data }) => /"usage(Metadata)?":\{/.test(data)),
  },
  "finish-twice": { events: (events, { closes }) => twice(events, closes) },
  "done-twice": { events: (events) => twice(events, (event) => event === events.at(-1)) },
  "done-spaced": { encode: (event, end) => encode(event, end).replace("[DONE]", "  [DONE]  ") },
  "no-done": {
    events: (events) =>
      events.filter(({ event, data }) => data !== "[DONE]" && event !== "message_stop"),
  },
  "no-closing-event": {
    events: (events) =>
      events.filter(({ event }) => event !== "message_stop" && event !== "response.completed"),
  },
  "no-usage": {
    events: (events) => events.map(withoutUsage),
    whole: (whole) => JSON.parse(withoutUsage({ data: JSON.stringify(whole) }).data),
  },
  "text-after-finish": {
    events: (events, encoder) => {
      const at = events.findIndex(encoder.closes) + 1;
      return [...events.slice(0, at), encoder.delta(" P.S."), ...events.slice(at)];
    },
  },
  "at-maximum": AT_MAXIMUM,
  "empty-at-maximum": { ...AT_MAXIMUM, pieces: () => [""] },
  escapes: { pieces: () => ["NUL \u0000, ", "half \ud83d", " of a character"] },
  "split-surrogates": { pieces: () => ["half \ud83d", "\udc4b and half"] },
  "large-event": { pieces: () => ["x".repeat(900_000)] },
  "tiny-frames": {
    pieces: () => ["x", "x"],
    send: (exchange, parts, headers) => {
      const at = parts.findIndex((part) => part.includes('"x"'));
      const frame = parts[at] ?? Buffer.of();
      const frames = Buffer.alloc(frame.length * (Number(exchange.argument) - 1), frame);
      return send(
        exchange,
        [Buffer.concat([...parts.slice(0, at), frames, ...parts.slice(at + 1)])],
        headers,
      );
    },
  },
  "large-reply": {
    async answer({ response, encoder, chatRequest, argument }) {
      const [head = "", tail = ""] = JSON.stringify(
        encoder.whole(TEXT, { input: 1, output: 1 }, chatRequest),
      ).split(TEXT);
      response.writeHead(200, { "content-type": "application/json" });
      await write(response, head);
      const part = "x".repeat(LARGE_PART);
      for (let left = Number(argument); left > 0 && !response.destroyed; left -= LARGE_PART) {
        await write(response, part.slice(0, left));
      }
      response.end(tail);
    },
  },
  counting: {
    pieces: (count) => Array.from({ length: Number(count) }, (_, index) => `${index} `),
    send: (...reply) => send(...reply, COUNTING_MS),
  },
  "thinking-long": {
    send: (exchange, [first = Buffer.of(), ...rest], headers) => {
      const thought = Buffer.from(encode(exchange.encoder.thinking, exchange.encoder.lineEnd));
      const thoughts: Buffer[] = Array(Number(exchange.argument)).fill(thought);
      return send(exchange, [first, ...thoughts, ...rest], headers, COUNTING_MS);
    },
  },
  "json-instead": {
    answer: (exchange) =>
      respond({}, { ...exchange, chatRequest: { ...exchange.chatRequest, stream: false } }),
  },
};

/** Repeats some events, but none with text. */
const twice = (events: Event[], chosen: (event: Event) => boolean) =>
  events.flatMap((event) =>
    chosen(event) && !event.data.includes('"text"') ? [event, event] : [event],
  );

function withoutUsage({ data, ...event }: Event): Event {
  return { ...event, data: data.replace(/"usage(Metadata)?":\{[^{}]*\}/g, '"unused":0') };
}
