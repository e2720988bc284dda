import { once } from "node:events";
import type { Socket } from "node:net";
import { type DescMessage, type MessageShape, toJson } from "@bufbuild/protobuf";
import { ConnectError, type StreamResponse } from "@connectrpc/connect";
import type { FastifyReply } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { FormattedReply, HttpFormat } from "../formats/format.ts";
import type { HttpBinding } from "./binding.ts";
import { toHttpError } from "./errors.ts";
import type { HttpErrorResponse } from "./http-error.ts";
import { DONE, eventLine } from "./one-line.ts";
import { forwardHeaders } from "./response.ts";

const KEEP_ALIVE = ": keep-alive\n\n";
const emitDefaults = { alwaysEmitImplicit: true };

/** How to write the parts of a stream. */
type StreamForm = {
  /** Headers of the response, as far as they are known when it begins. */
  headers(): Record<string, string>;
  /** The events of a message; may be none. */
  events(message: MessageShape<DescMessage>): string;
  /** The event for a failure. */
  failure(failed: HttpErrorResponse): string;
  /** Whether a failure before the first message is also an event instead of a status. */
  beginsByFailure(failed: HttpErrorResponse): boolean;
  /** @throws Error if the reply is incomplete */
  assertFinished(): void;
  /** The text that ends every stream that has begun. */
  closing: string;
};

/** The form of `/ai/stream`, which always ends with `[DONE]`. */
export const ownStream = ({ method }: HttpBinding): StreamForm => ({
  headers: () => ({}),
  events: (message) => eventLine(toJson(method.output, message, emitDefaults)),
  failure: ({ body }) => eventLine({ error: body.message, code: body.code }),
  beginsByFailure: isOfProvider,
  assertFinished() {},
  closing: DONE,
});

/**
 * The form of a stream in a foreign format. A failed reply contains an error instead of its last
 * event.
 */
export const formattedStream = (format: HttpFormat, written: FormattedReply): StreamForm => ({
  headers: written.headers,
  events: written.event,
  failure: format.failure,
  beginsByFailure: () => false,
  assertFinished: () => assertFinished(written),
  closing: format.closing,
});

/**
 * Sends the messages of a server-streaming call as server-sent events. Headers are only sent with
 * the first event or after a long silence, so that an early failure gets its own status. Later
 * failures become events. When the client disconnects, the call is aborted immediately.
 * @param start starts the call; resolves with or before the first message
 * @param keepAliveMs silence after which a comment is sent to keep the connection alive, in ms
 * @param report logs an unexpected failure
 * @throws the error of the call, if it can still be returned as a status
 */
export async function sendStream(
  form: StreamForm,
  reply: FastifyReply,
  start: () => Promise<StreamResponse>,
  { keepAliveMs, report }: { keepAliveMs: number; report: (thrown: unknown) => void },
): Promise<void> {
  const { raw, request } = reply;
  const { call } = request;
  const headers: Headers[] = []; // those of the call that are known when the response begins
  const events = createSseWriter(form, reply, keepAliveMs, headers);
  try {
    const response = await start();
    headers.push(response.header);
    for await (const message of response.message) {
      const isFlushed = events.write(form.events(message));
      if (!isFlushed) await once(raw.socket ?? raw, "drain", { signal: call.signal });
    }
    form.assertFinished();
    events.open();
  } catch (error) {
    const thrown = call.signal.aborted ? call.signal.reason : error; // the error of `once` would hide the reason
    const failed = toHttpError(thrown);
    request.failure = failed.body.code;
    if (request.raw.socket.destroyed) return; // the client has disconnected; `raw` is closed later
    if (!raw.headersSent && !form.beginsByFailure(failed)) throw thrown;
    if (failed.isInternal) report(thrown);
    headers.push(ConnectError.from(thrown).metadata); // with gRPC, a failure's metadata arrives after the headers
    events.write(form.failure(failed));
  } finally {
    events.close(form.closing);
  }
}

/**
 * Reads a reply to its end and returns it as JSON text in a foreign format.
 * @throws the error of the call; Error if the reply is incomplete
 */
export async function readWhole(
  written: FormattedReply,
  { message }: StreamResponse,
): Promise<string> {
  const whole = written.whole();
  for await (const event of message) whole.add(event);
  assertFinished(written);
  return whole.text();
}

/**
 * Services end a reply with an event or an error. A reply without either must not look complete.
 */
function assertFinished({ isFinished }: FormattedReply): void {
  if (!isFinished()) throw new Error("the services have ended a reply without its last event");
}

/**
 * Failures of the provider are part of the reply and become events. Earlier failures (caller,
 * limits, request, bugs) become a status.
 */
const isOfProvider = ({ reason, body }: HttpErrorResponse) =>
  body.statusCode === 422 || (body.statusCode === 500 && reason !== Reason.UNSPECIFIED);

/**
 * Writes server-sent events. The response headers are sent once, with the first event or
 * heartbeat.
 */
function createSseWriter(
  form: StreamForm,
  reply: FastifyReply,
  keepAliveMs: number,
  headers: Headers[],
) {
  const { raw } = reply;
  let socket: Socket | undefined;
  const open = () => {
    if (raw.headersSent || raw.destroyed) return;
    for (const each of headers) forwardHeaders(each, reply);
    reply.hijack();
    reply.headers({
      ...form.headers(),
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
  // Writes a chunk (RFC 9112 section 7.1) as one string. Node would write its four parts
  // separately, which costs 8 % more CPU time for a stream of 50 events.
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
     * Sends events.
     * @returns false if the client is slow; then wait for `drain`
     */
    write(events: string): boolean {
      if (events === "") return true;
      heartbeat.refresh();
      return send(events);
    },
    /** Stops the heartbeat, and ends a started stream. */
    close(end: string): void {
      clearInterval(heartbeat);
      if (raw.headersSent && !raw.destroyed) raw.end(end);
    },
  };
}
