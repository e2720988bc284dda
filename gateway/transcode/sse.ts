import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { toJson } from "@bufbuild/protobuf";
import { ConnectError, type StreamResponse } from "@connectrpc/connect";
import type { FastifyReply } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Place } from "../places.ts";
import { eachOf } from "../transport/messages.ts";
import type { HttpBinding } from "./binding.ts";
import type { HttpErrorResponse } from "./errors.ts";
import { toHttpError } from "./errors.ts";
import type { Call } from "./inflight.ts";
import { passOn } from "./response.ts";

const DONE = "data: [DONE]\n\n";
const KEEP_ALIVE = ": keep-alive\n\n";
const LAST_CHUNK = "0\r\n\r\n";
const emitDefaults = { alwaysEmitImplicit: true };
const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;

/**
 * Answers a server-streaming call as server-sent events (spec section 4.5). No header is sent before the first message,
 * a failure, or a long silence, so that a refusal still has its own status. Afterwards a failure is an event, and the
 * stream ends with exactly one `[DONE]`. The call is aborted at once when the client goes away.
 * @param start begins the call; it settles no sooner than the first message does
 * @param keepAliveMs silence after which a comment keeps the connection alive, in milliseconds
 * @param place where what is not taken yet is counted
 * @param report told of a failure that nobody has logged
 * @throws the call's failure, if it has to be answered by a status
 */
export async function sendStream(
  rule: HttpBinding,
  reply: FastifyReply,
  call: Call,
  start: () => Promise<StreamResponse>,
  { keepAliveMs, report, place }: { keepAliveMs: number; report: (thrown: unknown) => void; place: Place | undefined },
): Promise<void> {
  const { raw } = reply;
  const events = createSseWriter(reply, keepAliveMs);
  let header: Headers | undefined;
  const drained = async () => {
    if (place?.pile(true) === false) raw.destroy(); // for want of room, like whoever takes nothing for long
    await once(raw, "drain", { signal: call.signal });
    place?.pile(false);
  };
  try {
    const response = await start();
    header = response.header;
    await eachOf(response.message, (message) => {
      events.open(header);
      const isTaken = events.write(event(toJson(rule.method.output, message, emitDefaults)));
      return isTaken ? undefined : drained();
    });
    events.open(header);
  } catch (thrown) {
    if (raw.destroyed) return; // nobody is left to be told
    const reason = call.reasonFor(thrown); // afterwards it would be that we have stopped it
    const failed = toHttpError(reason);
    call.stop(); // leaving the loop does not cancel a Connect stream
    if (!events.isOpen() && !isEvent(failed)) throw reason;
    if (failed.isInternal) report(thrown);
    events.open(header, ConnectError.from(thrown).metadata); // over gRPC what goes with a failure comes after the header
    events.write(event({ error: failed.body.message }));
  } finally {
    events.close();
  }
}

/** Failures of the provider are part of the reply; everything before that (caller, limits, request, bugs) is a status. */
const isEvent = ({ reason, body }: HttpErrorResponse) =>
  body.statusCode === 422 || (body.statusCode === 500 && reason !== Reason.UNSPECIFIED);

type EventStream = {
  /** Has the headers sent, once, with what is written next. */
  open(...headers: (Headers | undefined)[]): void;
  isOpen(): boolean;
  /** Writes. @returns whether the reader takes more at the moment */
  write(text: string): boolean;
  /** Stops the clock; ends an open stream by `[DONE]`. */
  close(): void;
};

function createSseWriter(reply: FastifyReply, keepAliveMs: number): EventStream {
  const raw: ServerResponse = reply.raw;
  let isChunked = false;
  let isOpen = false;
  const open = (...headers: (Headers | undefined)[]) => {
    if (isOpen || raw.destroyed) return;
    isOpen = true;
    for (const each of headers) if (each) passOn(each, reply);
    reply.hijack();
    reply.headers({
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      "x-accel-buffering": "no", // nginx would hold events back
    });
    if (reply.request.raw.httpVersion === "1.1" && raw.shouldKeepAlive) reply.header("connection", "keep-alive");
    raw.writeHead(200, reply.getHeaders() as Record<string, string>);
    isChunked = raw.chunkedEncoding;
    raw.chunkedEncoding = false;
  };
  // A chunk (RFC 9112 section 7.1) in one text: Node's own way writes its four parts one by one, which costs a sixth of
  // the whole stream.
  const framed = (text: string) => (isChunked ? `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n` : text);
  const silence = setInterval(() => {
    open();
    if (!raw.writableNeedDrain && !raw.destroyed) raw.write(framed(KEEP_ALIVE));
  }, keepAliveMs);
  return {
    open,
    isOpen: () => isOpen,
    write(text) {
      silence.refresh();
      return raw.write(framed(text));
    },
    close() {
      clearInterval(silence);
      if (isOpen && !raw.destroyed) raw.end(framed(DONE) + (isChunked ? LAST_CHUNK : ""));
    },
  };
}
