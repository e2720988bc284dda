import { once } from "node:events";
import type { Socket } from "node:net";
import { toJson } from "@bufbuild/protobuf";
import { ConnectError, type StreamResponse } from "@connectrpc/connect";
import type { FastifyReply } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { HttpBinding } from "./binding.ts";
import { type HttpErrorResponse, toHttpError } from "./errors.ts";
import { forwardHeaders } from "./response.ts";

const DONE = "data: [DONE]\n\n";
const KEEP_ALIVE = ": keep-alive\n\n";
const emitDefaults = { alwaysEmitImplicit: true };

/** Unicode line terminators that JSON does not escape, but that many readers treat as line ends. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

/** JSON on a single line, whatever its reader treats as a line end. */
const oneLine = (data: unknown) =>
  JSON.stringify(data).replace(
    LINE_ENDS,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/**
 * Sends the messages of a server-streaming call as server-sent events (spec section 4.5). Headers are
 * only sent with the first message, a failure event or after a long silence, so that an early failure
 * gets its own status. Later failures become events. The stream ends with exactly one `[DONE]`. When
 * the client disconnects, the call is aborted immediately.
 * @param start starts the call; resolves with or before the first message
 * @param keepAliveMs silence after which a comment is sent to keep the connection alive, in ms
 * @param report logs an unexpected failure
 * @throws the error of the call, if the response is still to be a status
 */
export async function sendStream(
  { method }: HttpBinding,
  reply: FastifyReply,
  start: () => Promise<StreamResponse>,
  { keepAliveMs, report }: { keepAliveMs: number; report: (thrown: unknown) => void },
): Promise<void> {
  const { raw, request } = reply;
  const { call } = request;
  const headers: Headers[] = []; // of the call, as far as known when the response begins
  const events = createSseWriter(reply, keepAliveMs, headers);
  try {
    const response = await start();
    headers.push(response.header);
    for await (const message of response.message) {
      const isFlushed = events.write(toJson(method.output, message, emitDefaults));
      if (!isFlushed) await once(raw.socket ?? raw, "drain", { signal: call.signal });
    }
    events.open();
  } catch (error) {
    const thrown = call.signal.aborted ? call.signal.reason : error; // the error of `once` would hide the reason
    const failed = toHttpError(thrown);
    request.failure = failed.body.code;
    if (request.raw.socket.destroyed) return; // the client has disconnected; `raw` is told later
    if (!raw.headersSent && !isEvent(failed)) throw thrown;
    if (failed.isInternal) report(thrown);
    headers.push(ConnectError.from(thrown).metadata); // with gRPC, a failure's metadata arrives after the headers
    events.write({ error: failed.body.message, code: failed.body.code });
  } finally {
    events.close();
  }
}

/**
 * Failures of the provider are part of the reply and become events. Earlier failures (caller, limits,
 * request, bugs) become a status.
 */
const isEvent = ({ reason, body }: HttpErrorResponse) =>
  body.statusCode === 422 || (body.statusCode === 500 && reason !== Reason.UNSPECIFIED);

/**
 * Writes server-sent events. The response headers are sent once, with the first event or
 * heartbeat.
 */
function createSseWriter(reply: FastifyReply, keepAliveMs: number, headers: Headers[]) {
  const { raw } = reply;
  let socket: Socket | undefined;
  const open = () => {
    if (raw.headersSent || raw.destroyed) return;
    for (const each of headers) forwardHeaders(each, reply);
    reply.hijack();
    reply.headers({
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      "x-accel-buffering": "no", // nginx would buffer the events
    });
    const isChunked = reply.request.raw.httpVersion === "1.1";
    if (isChunked && raw.shouldKeepAlive) reply.header("connection", "keep-alive");
    if (isChunked) reply.header("transfer-encoding", "chunked");
    raw.writeHead(200, reply.getHeaders() as Record<string, string>);
    if (!isChunked || !raw.socket) return; // HTTP/1.0, or an earlier response on the connection is unfinished
    socket = raw.socket;
    socket.cork();
    raw.flushHeaders();
    process.nextTick(() => socket?.uncork());
  };
  // Writes a chunk (RFC 9112 section 7.1) as one string. Node would write its four parts separately,
  // which costs 8 % more CPU time for a stream of 50 events.
  const send = (text: string): boolean => {
    open();
    return socket
      ? socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`)
      : raw.write(text);
  };
  // SSE heartbeat: a comment after each silence, so that proxies keep the connection open.
  const heartbeat = setInterval(() => {
    if (!(socket ?? raw).writableNeedDrain && !raw.destroyed) send(KEEP_ALIVE);
  }, keepAliveMs);
  return {
    open,
    /**
     * Sends an event.
     * @returns false if the client is slow; then wait for `drain`
     */
    write(data: unknown): boolean {
      heartbeat.refresh();
      return send(`data: ${oneLine(data)}\n\n`);
    },
    /** Stops the heartbeat. Ends a started stream with `[DONE]`. */
    close(): void {
      clearInterval(heartbeat);
      if (raw.headersSent && !raw.destroyed) raw.end(DONE);
    },
  };
}
