import { type Conversation, type Needs, type Route, routeOf, settleFailure, startUsage } from "./conversation.ts";

/** A piece of a reply. */
type Piece = { chunk: string };
type Pieces = Required<Pick<AsyncIterator<Piece, undefined, undefined>, "next" | "return">>;

const OVER: IteratorReturnResult<undefined> = { done: true, value: undefined };

/**
 * Sends a conversation and hands on the reply as it comes: text that is never empty, in whole characters. It ends
 * without an error only when the provider said that the reply is complete, and with one when the session ends. Nothing
 * is sent before the first piece is asked for. By hand, since a generator would cost every piece three more turns.
 * @throws Refusal VALIDATION_FAILED, PROVIDER_NOT_CONFIGURED; while it is read PROVIDER_ERROR, UNAUTHENTICATED
 */
export function streamChat(call: Needs, conversation: Conversation): Pieces & AsyncIterable<Piece, undefined> {
  const route = routeOf(call.ai, conversation);
  let pieces: Pieces | undefined;
  return {
    next() {
      pieces ??= begin(call, route);
      return pieces.next();
    },
    async return() {
      return pieces?.return() ?? OVER;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

function begin(call: Needs, route: Route): Pieces {
  const stay = call.ai.sessions.follow(call.caller.session.id, call.signal);
  const entry = startUsage(call, stay.signal, route, true);
  const reply = route.provider.stream(route.prompt, stay.signal, entry.stopwatch);
  const texts = reply[Symbol.asyncIterator]();
  const hand = (step: IteratorResult<string, undefined>): IteratorResult<Piece, undefined> => {
    if (!step.done) {
      entry.wrote(step.value);
      return { done: false, value: { chunk: step.value } };
    }
    if (reply.usage) entry.report(reply.usage);
    entry.settle("completed");
    stay.end();
    return step;
  };
  const fail = (thrown: unknown): never => {
    stay.end();
    throw settleFailure(call, stay.signal, entry, thrown);
  };
  return {
    next: () => texts.next().then(hand, fail),
    async return() {
      entry.settle("cancelled"); // the reader has left the loop
      await texts.return?.();
      stay.end(); // not before: by its signal a text that is still asked for is known to be unwanted, and not broken off
      return OVER;
    },
  };
}
