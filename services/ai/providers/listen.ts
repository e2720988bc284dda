import type { Readable } from "node:stream";
import { inLine, isBusy } from "../../process/turns.ts";
import type { Exchange } from "./exchange.ts";
import { Fault } from "./failure.ts";
import type { Limits } from "./provider.ts";
import type { Transcript } from "./transcript.ts";

/** A reply that is being heard. */
export type Heard = {
  /** Resolves when there is something to take. Asked for once at a time. */
  arrival(): Promise<void>;
  /**
   * All the text that has come; "" once the reply is complete.
   * @throws Fault after the text before it
   */
  take(): string;
};

/**
 * Hears a reply that comes as events, as it comes. Bytes are received only while somebody waits for text: a slow reader
 * slows the provider.
 */
export function listen(body: Readable, transcript: Transcript, exchange: Exchange, limits: Limits): Heard {
  let text = "";
  let received = 0;
  let isWanted = false;
  let waiting = 0; // in line
  let ending: { error: unknown } | undefined;
  let wake = () => {};

  const end = (error?: unknown) => {
    if (ending) return;
    // After the finish marker any end will do: a reset, silence, a half-sent closing frame.
    ending = { error: transcript.verdict ?? (transcript.final ? undefined : error) };
    body.off("data", receive);
    wake();
  };
  const complete = () => {
    if (!ending) text += transcript.end();
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
        transcript.fault ??= new Fault("unreadable reply");
        end();
      }
    };
    return (...given: Given) => {
      if (waiting === 0 && !isBusy()) return hear(...given);
      waiting += 1;
      body.pause();
      inLine(() => {
        waiting -= 1;
        body.resume();
        hear(...given);
      });
    };
  };
  const receive = inTurn((bytes: Buffer) => {
    if (ending) return;
    received += bytes.length;
    if (received > limits.streamBytes) return end(new Fault("reply too large"));
    const startedAt = performance.now();
    text += transcript.feed(bytes);
    exchange.stopwatch?.worked(performance.now() - startedAt);
    if (transcript.fault || transcript.over) return complete();
    if (!isWanted) return void body.pause();
    if (text !== "") wake();
    else if (transcript.active) expect();
  });
  const expect = () => exchange.expectWithin(transcript.final ? limits.afterFinishMs : limits.idleMs);

  body.on("data", receive).on("error", inTurn(end));
  body.once("end", inTurn(complete)).once(
    "close",
    inTurn(() => end(new Fault("broke off"))),
  );
  return {
    arrival: () =>
      new Promise((resolve) => {
        if (text !== "" || ending) return resolve();
        isWanted = true;
        wake = resolve;
        expect();
        if (body.isPaused() && waiting === 0) body.resume();
      }),
    take() {
      isWanted = false;
      exchange.rest(); // the reader may take its time
      if (text === "" && ending?.error) throw ending.error;
      const taken = text;
      text = "";
      return taken;
    },
  };
}
