import type { Readable } from "node:stream";
import type { Take } from "../../flow.ts";
import { inLine, isBusy } from "../../process/turns.ts";
import type { ReplyDecoder } from "./decode.ts";
import { UpstreamError } from "./errors.ts";
import type { ProviderBounds } from "./provider.ts";
import type { UpstreamRequest } from "./upstream-request.ts";

/** What a reply is heard by. */
type Listener = { exchange: UpstreamRequest; limits: ProviderBounds; take: Take<string> };

/**
 * Hears a reply that comes as events, and hands over its text as it comes. While what was handed over is not taken,
 * nothing is received: a slow reader slows the provider. Resolves once the reply is complete and all of it taken.
 * @throws Fault after the text before it
 */
export function listen(body: Readable, transcript: ReplyDecoder, { exchange, limits, take }: Listener): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let text = "";
  let received = 0;
  let isDue = false;
  let isHandingOver = false;
  let waiting = 0; // in line
  let ending: { error: unknown } | undefined;

  const end = (error?: unknown) => {
    // After the finish marker any end will do: a reset, silence, a half-sent closing frame.
    ending ??= { error: transcript.error ?? (transcript.isComplete ? undefined : error) };
    body.off("data", receive);
    handOver();
    if (exchange.isAborted) return reject(exchange.cause); // what is left of the text is nobody's
    if (isHandingOver) return;
    if (ending.error) reject(ending.error);
    else resolve();
  };
  const complete = () => {
    if (!ending) text += transcript.end();
    end();
  };
  const expect = () => exchange.resetIdleTimer(transcript.isComplete ? limits.afterFinishMs : limits.idleMs);
  /** What comes at once is handed over at once. */
  const handOverSoon = () => {
    if (isDue) return;
    isDue = true;
    queueMicrotask(handOver);
  };
  const handOver = () => {
    isDue = false;
    if (isHandingOver || text === "" || exchange.isAborted) return;
    const taken = takeOrLeave(text);
    text = "";
    if (!taken) return;
    isHandingOver = true;
    body.pause();
    exchange.pauseIdleTimer(); // the reader may take its time
    taken.then(goOn, leave);
  };
  const takeOrLeave = (text: string) => {
    try {
      return take(text);
    } catch (reason) {
      return leave(reason);
    }
  };
  const goOn = () => {
    isHandingOver = false;
    if (ending) return end();
    handOver();
    if (isHandingOver) return;
    expect();
    if (waiting === 0) body.resume();
  };
  const leave = (reason: unknown) => {
    exchange.abort(reason);
    end();
  };
  /**
   * Makes a listener that leaves time to everybody else, however fast providers send: where the process is busy, what
   * happens waits in line. Nobody catches what a listener throws: it would end the process. Here it ends the reply.
   */
  const inTurn = <Given extends unknown[]>(listener: (...given: Given) => void) => {
    const hear = (...given: Given) => {
      try {
        listener(...given);
      } catch {
        transcript.fault ??= new UpstreamError("unreadable reply");
        end();
      }
    };
    return (...given: Given) => {
      if (waiting === 0 && !isBusy()) return hear(...given);
      waiting += 1;
      body.pause();
      inLine(() => {
        waiting -= 1;
        hear(...given);
        if (waiting === 0 && !isHandingOver) body.resume();
      });
    };
  };
  const receive = inTurn((bytes: Buffer) => {
    if (ending) return;
    received += bytes.length;
    if (received > limits.streamBytes) return end(new UpstreamError("reply too large"));
    const startedAt = performance.now();
    text += transcript.push(bytes);
    exchange.timings?.worked(performance.now() - startedAt);
    if (transcript.fault || transcript.isClosed) return complete();
    if (transcript.hadContent && !isHandingOver) expect();
    if (text !== "") handOverSoon();
  });

  expect();
  body.on("data", receive).on("error", inTurn(end));
  body.once("end", inTurn(complete)).once(
    "close",
    inTurn(() => ending || end(new UpstreamError("broke off"))), // with its stack this costs as much as ten pieces
  );
  return promise;
}
