import { connectionError, GatehouseError } from "./errors.ts";

/**
 * The chunks of an event stream. Leaving the loop early cancels the request.
 * @throws GatehouseError `STREAM_ERROR` for an error event, `NETWORK_ERROR` for a stream that ends without `[DONE]`
 */
export async function* chunksOf(response: Response, signal: AbortSignal | undefined): AsyncGenerator<string, void> {
  for await (const line of linesOf(response, signal)) {
    if (!line.startsWith("data: ")) continue; // an empty line ends each event, comments keep the connection open
    const data = line.slice("data: ".length);
    if (data === "[DONE]") return;
    const event: { chunk?: string; error?: string } = JSON.parse(data);
    if (event.error !== undefined) throw new GatehouseError("STREAM_ERROR", event.error, { status: response.status });
    if (event.chunk) yield event.chunk;
  }
  throw new GatehouseError("NETWORK_ERROR", "The stream ended before the reply was complete.");
}

async function* linesOf(response: Response, signal: AbortSignal | undefined): AsyncGenerator<string, void> {
  if (!response.body) return yield* (await response.text()).split("\n"); // React Native has no streams
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((thrown) => {
        throw connectionError(thrown, signal);
      });
      const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {}); // it has failed already
  }
}
