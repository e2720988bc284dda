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

/** Line ends of Unicode that JSON does not escape. Many readers end a line at them too. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

/** JSON on one line, whatever its reader takes for the end of a line. */
const oneLine = (data: unknown) =>
  JSON.stringify(data).replace(
    LINE_ENDS,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/**
 * Sends the messages of a server-streaming call as server-sent events (spec section 4.5). No header
 * is sent before the first message, a failure or a long silence, so that an early failure has its
 * own status. A later failure becomes an event. The stream ends with exactly one `[DONE]`. The call
 * is aborted at once when the client disconnects.
 * @param start starts the call. Resolves no sooner than the first message
 * @param keepAliveMs silence after which a comment keeps the connection alive, in ms
 * @param report logs an unexpected failure
 * @throws the error of the call, if the response is a status
 */
export async function sendStream(
  { method }: HttpBinding,
  reply: FastifyReply,
  start: () => Promise<StreamResponse>,
  { keepAliveMs, report }: { keepAliveMs: number; report: (thrown: unknown) => void },
): Promise<void> {
  const { raw, request } = reply;
  const { call } = request;
  const headers: Headers[] = []; // of the call, as far as they are known when the response begins
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
    const thrown = call.signal.aborted ? call.signal.reason : error; // `once` would hide the reason
    const failed = toHttpError(thrown);
    request.failure = failed.body.code;
    if (request.raw.socket.destroyed) return; // the client has disconnected: `raw` knows it a little later
    if (!raw.headersSent && !isEvent(failed)) throw thrown;
    if (failed.isInternal) report(thrown);
    headers.push(ConnectError.from(thrown).metadata); // over gRPC the metadata of a failure comes after the header
    events.write({ error: failed.body.message, code: failed.body.code });
  } finally {
    events.close();
  }
}

/**
 * Failures of the provider are part of the reply. Everything before (caller, limits, request, bugs)
 * is a status.
 */
const isEvent = ({ reason, body }: HttpErrorResponse) =>
  body.statusCode === 422 || (body.statusCode === 500 && reason !== Reason.UNSPECIFIED);

/**
 * Writes server-sent events. The headers of the reply are sent once, along with the first event or
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
    if (!isChunked || !raw.socket) return; // HTTP/1.0, or an earlier response of the connection has not ended
    socket = raw.socket;
    socket.cork();
    raw.flushHeaders();
    process.nextTick(() => socket?.uncork());
  };
  // A chunk (RFC 9112 section 7.1) as one string. Node writes its four parts apart, which costs a
  // stream of 50 events 8 % more processor time.
  const send = (text: string): boolean => {
    open();
    return socket
      ? socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`)
      : raw.write(text);
  };
  // The SSE heartbeat: a comment after each silence, so that proxies keep the connection.
  const heartbeat = setInterval(() => {
    if (!(socket ?? raw).writableNeedDrain && !raw.destroyed) send(KEEP_ALIVE);
  }, keepAliveMs);
  return {
    open,
    /**
     * Sends an event.
     * @returns false if the client is slow: wait for `drain`
     */
    write(data: unknown): boolean {
      heartbeat.refresh();
      return send(`data: ${oneLine(data)}\n\n`);
    },
    /** Stops the heartbeat. Ends an open stream with `[DONE]`. */
    close(): void {
      clearInterval(heartbeat);
      if (raw.headersSent && !raw.destroyed) raw.end(DONE);
    },
  };
}
