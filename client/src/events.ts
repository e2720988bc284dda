import type { ErrorCode } from "./api.ts";
import { connectionError, GatehouseError, unexpected } from "./errors.ts";

/** A data line, with either line ending, since proxies may rewrite it. */
const DATA = /^data: ?(.*?)\r?$/s;

/** An event of a stream: a piece of the reply, or the failure that has ended it. */
type StreamEvent = { chunk?: string; error?: string; code?: ErrorCode };

/**
 * The chunks of an event stream. Leaving the loop early cancels the request.
 * @throws GatehouseError `STREAM_ERROR` for an error event, `NETWORK_ERROR` for a stream that ends
 * without `[DONE]`
 */
export async function* chunksOf(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<string, void> {
  for await (const event of eventsOf<StreamEvent>(response, signal)) {
    if (event.error !== undefined) throw failureOf(event.error, event.code, response);
    if (event.chunk) yield event.chunk;
  }
}

/**
 * The events of a stream, until `[DONE]`.
 * @throws GatehouseError `NETWORK_ERROR` for a stream that ends without it
 */
export async function* eventsOf<Event>(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<Event, void> {
  for await (const line of linesOf(response, signal)) {
    const data = DATA.exec(line)?.[1];
    if (data === undefined) continue; // events end with an empty line; comments keep the connection open
    if (data === "[DONE]") return;
    yield eventOf(data, response);
  }
  throw new GatehouseError("NETWORK_ERROR", "The stream ended before the reply was complete.");
}

const failureOf = (message: string, streamCode: ErrorCode | undefined, { status }: Response) =>
  new GatehouseError("STREAM_ERROR", message, { status, streamCode });

function eventOf<Event>(data: string, response: Response): Event {
  try {
    return JSON.parse(data);
  } catch (thrown) {
    throw unexpected(response, thrown);
  }
}

async function* linesOf(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<string, void> {
  const failed = (thrown: unknown) => {
    throw connectionError(thrown, signal);
  };
  if (!response.body) return yield* (await response.text().catch(failed)).split("\n"); // React Native has no streams
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(failed);
      const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {}); // the stream has already failed
  }
}
