import type { IncomingMessage } from "node:http";
import { pipeline, type Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { soon } from "../../process/turns.ts";
import { type ParsedEvent, parseDocument, type ResponseParser, toUsage } from "./decode.ts";
import { classifyError, retryDelayOf, toUpstreamError, UpstreamError } from "./errors.ts";
import type { UpstreamResponse } from "./http-client.ts";
import type { Completion, ProviderBounds } from "./provider.ts";
import type { UpstreamRequest } from "./upstream-request.ts";

/** The part of an error's body that is looked at. Bytes. */
const ERROR_BYTES = 64 * 1024;

/** Sends one request and resolves when its status line has arrived. */
export type Send = (signal: AbortSignal) => Promise<UpstreamResponse>;

/** A success that has begun to arrive: its body, decompressed, and its media type ("" when the provider named none). */
export type OpenReply = { body: Readable; type: string };

/**
 * Gets an answer that is a success and has begun to arrive, trying again what may pass until the first byte.
 * The wait is what the provider asked for, if there is time for it, and otherwise a growing, jittered one.
 * @throws Fault
 */
export async function sendWithRetry(send: Send, exchange: UpstreamRequest, limits: ProviderBounds): Promise<OpenReply> {
  for (let attempt = 0; ; attempt++) {
    exchange.resetIdleTimer(limits.firstByteMs);
    try {
      const { message, sentAt } = await send(exchange.signal);
      exchange.timings?.sent(sentAt);
      await checkStatus(message);
      return { body: decompressed(message), type: mediaType(message) };
    } catch (thrown) {
      if (exchange.signal.aborted) throw thrown;
      const fault = toUpstreamError(thrown, "unreachable");
      const askedMs = fault.retryAfterMs ?? 0;
      const waitMs = Math.max(askedMs, limits.backoffMs * 2 ** attempt * (0.5 + Math.random()));
      const isWorthIt = fault.retryable && attempt < limits.retries;
      if (!isWorthIt || askedMs > limits.firstByteMs || waitMs > exchange.remainingMs) throw fault;
      await exchange.sleep(waitMs);
    }
  }
}

/**
 * Reads a reply that comes as one JSON document.
 * @throws Fault
 */
export async function readReply(
  { body, type }: OpenReply,
  { parseBody }: ResponseParser,
  exchange: UpstreamRequest,
  limits: ProviderBounds,
): Promise<Completion> {
  if (type !== "" && !type.endsWith("json")) throw new UpstreamError("unreadable reply");
  const bytes = await readAll(body, exchange, limits);
  exchange.pauseIdleTimer(); // it is our turn
  const read = () => {
    const startedAt = performance.now();
    const meaning = parseDocument(textOf(bytes), parseBody);
    exchange.timings?.worked(performance.now() - startedAt);
    return meaning;
  };
  const meaning = await new Promise<ParsedEvent>((resolve, reject) => {
    soon(() => (exchange.signal.aborted ? reject(exchange.cause) : resolve(read())));
  });
  const { text = "", usage, finished, failed, callsTool } = meaning;
  if (failed) throw new UpstreamError(failed, { usage: toUsage(usage) });
  if (!finished) throw new UpstreamError("broke off");
  if (callsTool && text === "") throw new UpstreamError("unreadable reply");
  return { content: text.toWellFormed(), usage: toUsage(usage) };
}

/**
 * Collects a body that has to be whole to mean anything. Blank bytes, with which some servers keep a connection busy,
 * are silence.
 * @throws Fault when it is larger than allowed or breaks off
 */
async function readAll(body: Readable, exchange: UpstreamRequest, limits: ProviderBounds): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  let size = 0;
  exchange.resetIdleTimer(limits.idleMs);
  await new Promise<void>((resolve, reject) => {
    body.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > limits.chatBytes) return void body.destroy(new UpstreamError("reply too large"));
      chunks.push(chunk);
      if (chunk.some((byte) => byte > 0x20)) exchange.resetIdleTimer(limits.idleMs);
    });
    body
      .once("end", resolve)
      .once("error", reject)
      .once("close", () => body.readableEnded || reject(new UpstreamError("broke off")));
  });
  return chunks;
}

/** A document's text; "" if it is no UTF-8, which is as unreadable. */
function textOf(chunks: Buffer[]): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    return "";
  }
}

/** Waits for the first byte of a success; anything else is a fault. Only statuses that say "later" may pass. */
async function checkStatus(message: IncomingMessage): Promise<void> {
  const status = message.statusCode ?? 0;
  if (status === 200) {
    return waitForFirstByte(message);
  }
  const error = await errorIn(message);
  const kind = classifyError(error, status);
  const retryable = (status === 408 || status === 429 || status >= 500) && kind !== "quota exhausted";
  throw new UpstreamError(status < 300 ? "unreadable reply" : kind, {
    retryable,
    retryAfterMs: retryAfterOf(message.headers) ?? retryDelayOf(error),
    detail: `HTTP ${status}`,
  });
}

/** Waits until there is something to read or, without any, the end. */
function waitForFirstByte(message: IncomingMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    if (message.readableLength > 0 || message.complete) return resolve();
    message.once("readable", resolve).once("end", resolve).once("error", reject);
  });
}

/** The error object in an error's body; undefined when there is none, as on the error pages of proxies. */
async function errorIn(message: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of decompressed(message) as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > ERROR_BYTES) return undefined;
    }
    const parsed: unknown = JSON.parse(Buffer.concat(chunks).toString());
    const body = (Array.isArray(parsed) ? parsed[0] : parsed) as { error?: unknown } | null;
    return body?.error ?? body;
  } catch {
    return undefined; // the status alone has to do
  }
}

/** OpenAI's `retry-after-ms` or the `Retry-After` of RFC 9110 (seconds or a date). Milliseconds from now. */
function retryAfterOf(headers: IncomingMessage["headers"]): number | undefined {
  const after = headers["retry-after"] ?? "";
  const date = WEEKDAY.test(after) ? Date.parse(after) : Number.NaN;
  const waits = [decimalIn(headers["retry-after-ms"]), decimalIn(after) * 1000, date - Date.now()];
  return waits.find((wait) => wait >= 0 && Number.isFinite(wait));
}

/** Every form of a date in HTTP begins so; `Date.parse` alone finds a date in almost anything. */
const WEEKDAY = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

const decimalIn = (value: string | string[] | undefined) =>
  /^\d+(\.\d+)?$/.test(`${value}`) ? Number(value) : Number.NaN;

const mediaType = ({ headers }: IncomingMessage) =>
  (headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "";

const DECOMPRESSORS: Record<string, () => NodeJS.ReadWriteStream> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** We ask for plain bytes; some proxies compress all the same. */
function decompressed(message: IncomingMessage): Readable {
  const create = DECOMPRESSORS[message.headers["content-encoding"]?.toLowerCase() ?? ""];
  if (!create) return message;
  // The error of either end reaches whoever reads the result; there is nothing left to do with it here.
  return pipeline(message, create(), () => {}) as unknown as Readable;
}
