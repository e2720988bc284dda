import type { IncomingMessage } from "node:http";
import { pipeline, type Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { parseDocument, type ResponseParser, toUsage } from "./decode.ts";
import { classifyError, retryDelayOf, toUpstreamError, UpstreamError } from "./errors.ts";
import type { UpstreamResponse } from "./http-client.ts";
import type { CallObserver, Completion, ProviderBounds } from "./provider.ts";
import type { UpstreamRequest } from "./upstream-request.ts";

/** Largest body of an error response that is parsed. Bytes. */
const ERROR_BYTES = 64 * 1024;

/** A success that has begun to arrive: its decompressed body and its media type ("" when the provider named none). */
export type OpenReply = { body: Readable; type: string };

/**
 * Sends a request until a successful response begins to arrive. Retries what may pass until the first byte. Waits as long
 * as the provider asks for, if there is time for it, and otherwise with exponential backoff and jitter.
 * @param send sends the request once and resolves when the status line has arrived
 * @param attemptMs time that an attempt has for its first byte
 * @throws UpstreamError
 */
export async function sendWithRetry(
  send: () => Promise<UpstreamResponse>,
  request: UpstreamRequest,
  { firstByteMs, retries, backoffMs }: ProviderBounds,
  observer?: CallObserver,
  attemptMs = firstByteMs,
): Promise<OpenReply> {
  for (let attempt = 0; ; attempt++) {
    request.resetIdleTimer(attemptMs);
    try {
      const { message, sentAt } = await send();
      observer?.onSent(sentAt);
      await checkStatus(message);
      request.pauseIdleTimer();
      return { body: decompressed(message), type: mediaType(message) };
    } catch (thrown) {
      if (request.signal.aborted) throw thrown;
      const error = toUpstreamError(thrown, "unreachable");
      const retryAfterMs = error.retryAfterMs ?? 0;
      const waitMs = Math.max(retryAfterMs, backoffMs * 2 ** attempt * (0.5 + Math.random()));
      const isWorthIt = error.retryable && attempt < retries;
      if (!isWorthIt || retryAfterMs > firstByteMs || waitMs > request.remainingMs) throw error;
      await request.sleep(waitMs);
    }
  }
}

/**
 * Reads a reply that comes as one JSON document.
 * @throws UpstreamError
 */
export async function readReply(
  { body, type }: OpenReply,
  { parseBody }: ResponseParser,
  { chatBytes }: ProviderBounds,
  observer?: CallObserver,
): Promise<Completion> {
  if (type !== "" && !type.endsWith("json")) throw new UpstreamError("unreadable reply");
  const bytes = await readAll(body, chatBytes);
  const startedAt = performance.now();
  const { text = "", usage, finished, failed, callsTool } = parseDocument(textOf(bytes), parseBody);
  observer?.onDecoded(performance.now() - startedAt);
  if (failed) throw new UpstreamError(failed, { usage: toUsage(usage) });
  if (!finished) throw new UpstreamError("broke off");
  if (callsTool && text === "") throw new UpstreamError("unreadable reply");
  return { content: text.toWellFormed(), usage: toUsage(usage) };
}

/** Reads a body to its end. @throws UpstreamError if it is larger than `maxBytes` or breaks off */
async function readAll(body: Readable, maxBytes: number): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw new UpstreamError("reply too large");
    chunks.push(chunk);
  }
  return chunks;
}

/** The text of a document. "" if it is not UTF-8, which is unreadable too. */
function textOf(chunks: Buffer[]): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    return "";
  }
}

/** Waits for the first byte of a success. Any other status is an error, which is retryable for 408, 429 and 5xx. */
async function checkStatus(message: IncomingMessage): Promise<void> {
  const status = message.statusCode ?? 0;
  if (status === 200) return waitForFirstByte(message);
  const error = await errorIn(message);
  const kind = classifyError(error, status);
  const retryable = (status === 408 || status === 429 || status >= 500) && kind !== "quota exhausted";
  throw new UpstreamError(status < 300 ? "unreadable reply" : kind, {
    retryable,
    retryAfterMs: retryAfterOf(message.headers) ?? retryDelayOf(error),
    detail: `HTTP ${status}`,
  });
}

/** Waits until there is something to read, or for the end. */
function waitForFirstByte(message: IncomingMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    if (message.readableLength > 0 || message.complete) return resolve();
    message.once("readable", resolve).once("end", resolve).once("error", reject);
  });
}

/** The error object in the body of an error response. undefined if there is none, as on the error pages of proxies. */
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
    return undefined; // the status alone decides
  }
}

/** OpenAI's `retry-after-ms` or the `Retry-After` of RFC 9110 (seconds or a date). Milliseconds from now. */
function retryAfterOf(headers: IncomingMessage["headers"]): number | undefined {
  const after = headers["retry-after"] ?? "";
  const date = WEEKDAY.test(after) ? Date.parse(after) : Number.NaN;
  const waits = [decimalIn(headers["retry-after-ms"]), decimalIn(after) * 1000, date - Date.now()];
  return waits.find((wait) => wait >= 0 && Number.isFinite(wait));
}

/** How an HTTP date begins. `Date.parse` alone finds a date in almost anything. */
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

/** The request asks for an uncompressed body, but some proxies compress all the same. */
function decompressed(message: IncomingMessage): Readable {
  const create = DECOMPRESSORS[message.headers["content-encoding"]?.toLowerCase() ?? ""];
  if (!create) return message;
  // An error of either stream reaches the reader of the result.
  return pipeline(message, create(), () => {}) as unknown as Readable;
}
