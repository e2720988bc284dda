import type { Http2ServerRequest, Http2ServerResponse, Http2Session } from "node:http2";
import type { Place } from "../process/room.ts";

/** Answers HTTP/2 requests that have a place. */
export type Answer = (req: Http2ServerRequest, res: Http2ServerResponse, place: Place) => void;

/**
 * Begins one call of each connection in each turn of the event loop: whoever sends thousands at once holds up nobody else,
 * and what they take back before its turn costs next to nothing.
 */
export function inTurns(answer: Answer): Answer {
  const waiting = new Map<Http2Session | undefined, Parameters<Answer>[]>();
  const begin = (session: Http2Session | undefined) => {
    const call = waiting.get(session)?.shift();
    if (!call) return void waiting.delete(session);
    setImmediate(begin, session);
    if (!call[0].stream.destroyed) answer(...call);
  };
  return (...call) => {
    const { session } = call[0].stream;
    const before = waiting.get(session);
    if (before) return void before.push(call);
    waiting.set(session, [call]);
    begin(session);
  };
}
