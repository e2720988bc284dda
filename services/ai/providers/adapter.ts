import { Exchange } from "./exchange.ts";
import { faultOf, ProviderFailure } from "./failure.ts";
import type { Completion, Limits, Prompt, Provider, Reply, Stopwatch } from "./provider.ts";
import { open, whole } from "./reader.ts";
import { StreamedReply } from "./reply.ts";
import type { Mapping } from "./transcript.ts";
import type { Answer } from "./wire.ts";

/** A dialect at one endpoint: how a prompt is sent, and what the answers say. */
export type Adapter = Mapping & {
  /** Sends the request once and resolves when the status line has arrived, whatever it says. */
  send(prompt: Prompt, stream: boolean, signal: AbortSignal): Promise<Answer>;
};

/**
 * Makes a provider of an adapter: attempts, alarms, sizes, finish marker and cleaning up are the same for all.
 * @param id the public id, which failures name
 */
export function asProvider(id: string, adapter: Adapter, limits: Limits): Provider {
  const failure = (thrown: unknown, exchange: Exchange, client: AbortSignal) =>
    client.aborted ? client.reason : new ProviderFailure(id, faultOf(exchange.cause ?? thrown, "broke off"));

  async function complete(prompt: Prompt, client: AbortSignal, stopwatch?: Stopwatch): Promise<Completion> {
    const exchange = new Exchange(client, limits.totalMs, stopwatch);
    try {
      const opened = await open((signal) => adapter.send(prompt, false, signal), exchange, limits);
      const completion = await whole(opened, adapter, exchange, limits);
      exchange.settle();
      return completion;
    } catch (thrown) {
      const reason = failure(thrown, exchange, client);
      exchange.abandon();
      throw reason;
    }
  }

  function stream(prompt: Prompt, client: AbortSignal, stopwatch?: Stopwatch): Reply {
    return new StreamedReply({
      send: (signal) => adapter.send(prompt, true, signal),
      mapping: adapter,
      limits,
      start: () => new Exchange(client, limits.totalMs, stopwatch),
      reasonFor: (thrown, exchange) => failure(thrown, exchange, client),
    });
  }

  return { complete, stream };
}
