import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { ChatRequest, DialectEncoder, Event, Tokens } from "./dialect-encoder.ts";

/**
 * The text of every case, in pieces with characters of one to four bytes, outer whitespace and
 * quotes.
 */
export const PIECES = [
  "Grüße",
  ", 世界",
  "! 👋🏽 ",
  'It\'s "fine":',
  "\n\n\t- ",
  "naïve ",
  "Ω≈ç√",
  " 🧑‍🚀",
  ".",
];
export const REPLY = PIECES.join("");
/** The text before the point where a case breaks off in the middle. */
export const PREFIX = PIECES.slice(0, 3).join("");

/** A request and the response to it. */
export type Exchange = {
  response: ServerResponse;
  encoder: DialectEncoder;
  chatRequest: ChatRequest;
  /** The number of requests with the same last message so far, including this one. */
  attempt: number;
  /** The word after the name of the case. */
  argument: string;
  /** A good answer, unless a case says otherwise: all events, or the one document. */
  events: Event[];
  whole: unknown;
};

type HeaderFields = Record<string, string>;

/** The differences of a case from a good reply. */
export type Case = {
  pieces?(argument: string): string[];
  /** What the reply reports. By default the tokens of its text and of the prompt. */
  tokens?(argument: string): Tokens | undefined;
  events?(events: Event[], encoder: DialectEncoder): Event[];
  whole?(whole: unknown, encoder: DialectEncoder): unknown;
  encode?(event: Event, lineEnd: string, index: number): string;
  headers?: HeaderFields;
  /** How the bytes are sent, one part per event. */
  send?(exchange: Exchange, parts: Buffer[], headers: HeaderFields): Promise<void>;
  /** Sends a different response. */
  answer?(exchange: Exchange): Promise<void> | void;
};

/** The text of one event, with the given line ending. */
export function encode({ event, data }: Event, lineEnd: string): string {
  return [...(event ? [`event: ${event}`] : []), `data: ${data}`, "", ""].join(lineEnd);
}

/** Writes at the pace of the reader. */
export async function write(response: ServerResponse, part: string | Buffer): Promise<void> {
  if (response.destroyed || response.write(part)) return;
  const waiting = new AbortController();
  await Promise.race(["drain", "close"].map((event) => once(response, event, waiting)));
  waiting.abort();
}

/**
 * Sends headers and parts, and does not end the response.
 * @param paceMs the pause after every part
 */
export async function sendParts(
  { response }: Exchange,
  parts: Buffer[],
  headers: HeaderFields,
  paceMs = 0,
): Promise<void> {
  response.writeHead(200, headers);
  for (const part of parts) {
    await write(response, part);
    if (paceMs > 0 && !response.destroyed) await sleep(paceMs);
  }
}

/**
 * Sends a whole response.
 * @param paceMs the pause after every part
 */
export async function send(
  exchange: Exchange,
  parts: Buffer[],
  headers: HeaderFields,
  paceMs = 0,
): Promise<void> {
  await sendParts(exchange, parts, headers, paceMs);
  exchange.response.end();
}

/** The events up to the point where cases break off. */
export function prefix(events: Event[]): Event[] {
  const start = events.findIndex(({ data }) =>
    data.includes(JSON.stringify(PIECES[0]).slice(1, -1)),
  );
  return events.slice(0, start + 3);
}

/** Sends the response of a case, by default a good reply. */
export async function respond(one: Case, exchange: Exchange): Promise<void> {
  if (one.answer) return one.answer(exchange);
  const { chatRequest, encoder, events, whole } = exchange;
  const parts = chatRequest.stream
    ? (one.events?.(events, encoder) ?? events).map((event, index) =>
        (one.encode ?? encode)(event, encoder.lineEnd, index),
      )
    : [JSON.stringify(one.whole ? one.whole(whole, encoder) : whole) ?? '{"half a document'];
  const headers = {
    "content-type": chatRequest.stream ? "text/event-stream" : "application/json",
    ...one.headers,
  };
  await (one.send ?? send)(
    exchange,
    parts.map((part) => Buffer.from(part)),
    headers,
  );
}
