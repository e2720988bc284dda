import { PassThrough } from "node:stream";
import { vi } from "vitest";
import { type CatalogueProvider, readCatalogue } from "../../../services/ai/catalogue.ts";
import type { Adapter } from "../../../services/ai/providers/adapter.ts";
import { ProviderError } from "../../../services/ai/providers/errors.ts";
import {
  DEFAULT_BOUNDS,
  type FinishReason,
  type Usage,
} from "../../../services/ai/providers/provider.ts";
import type { Body, Outcome } from "./reference-decoder.ts";
import { promptFor, providerAnswering } from "./support.ts";

const [entry] = readCatalogue().providers as [CatalogueProvider];

/** What a caller of a provider sees of a reply. */
export type Played = { text: string; outcome: Outcome; usage: Usage | undefined; failure?: string };

/**
 * Lets the provider client read a body that arrives piece by piece. Needs fake timers: silence
 * passes at once.
 * @param type the content type of the body
 */
export async function play(
  adapter: Adapter,
  { arrivals, ending }: Body,
  { isStream, type }: { isStream: boolean; type: string },
): Promise<Played> {
  const body = Object.assign(
    new PassThrough().on("error", () => {}),
    {
      statusCode: 200,
      headers: { "content-type": type },
      complete: false,
    },
  );
  const post = async (
    _target: object,
    _headers: object,
    _document: object,
    signal: AbortSignal,
  ) => {
    signal.addEventListener("abort", () => body.destroy(new Error("aborted")));
    return body;
  };
  const provider = providerAnswering(adapter, post);
  let text = "";
  let usage: Usage | undefined;
  let reason: FinishReason | undefined;
  let failure: string | undefined;
  const read = async () => {
    const prompt = { ...promptFor(entry, "Hello."), isStream };
    for await (const event of provider(prompt, new AbortController().signal)) {
      if (event.kind === "text") text += event.text;
      if (event.kind === "usage") usage = event.usage;
      if (event.kind === "finished") reason = event.reason;
    }
  };
  const reading = read().catch((thrown) => {
    if (!(thrown instanceof ProviderError)) throw thrown;
    failure = thrown.kind;
  });
  await settle();
  for (const { bytes, afterMs } of arrivals) {
    if (afterMs > 0) await vi.advanceTimersByTimeAsync(afterMs);
    if (!body.destroyed) body.write(bytes);
    await settle();
  }
  if (ending === "end") body.end();
  if (ending === "reset") body.destroy(Object.assign(new Error("reset"), { code: "ECONNRESET" }));
  await settle();
  await vi.advanceTimersByTimeAsync(DEFAULT_BOUNDS.totalMs);
  await reading;
  await vi.advanceTimersByTimeAsync(DEFAULT_BOUNDS.totalMs); // what closes the connection
  const good = reason === "length" ? "limit" : "finished";
  return {
    text,
    outcome: failure ? "failed" : good,
    usage,
    ...(failure && { failure }),
  };
}

/** Lets all work finish that waits for no timer. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
