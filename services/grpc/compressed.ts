import { type Message, toBinary } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import { placeKey } from "./places.ts";

/** Headers that name a compression. */
export const ENCODINGS = ["content-encoding", "grpc-encoding", "connect-content-encoding"];
/** How many times larger each may make it: of the two that are taken, deflate has a bound (zlib.net/zlib_tech.html). */
const GROWTH: Record<string, number> = { identity: 1, gzip: 1_032 };
const BOUNDLESS = 1_000_000;

/** How many times larger what a request holds may become when it is read. */
export const growthOf = (header: Headers) =>
  Math.max(...ENCODINGS.map((name) => GROWTH[header.get(name) ?? "identity"] ?? BOUNDLESS));

/** Has a compressed message, once it has been read, hold no more than what it has become. */
export const fitMessage: Interceptor = (next) => (req) => {
  if (growthOf(req.header) === 1) return next(req);
  const place = req.contextValues.get(placeKey);
  const resize = (message: Message) => place.fit(toBinary(req.method.input, message).length);
  if (req.stream) return next({ ...req, message: told(req.message, resize) });
  resize(req.message);
  return next(req);
};

async function* told<T>(messages: AsyncIterable<T>, tell: (message: T) => unknown): AsyncIterable<T> {
  for await (const message of messages) {
    tell(message);
    yield message;
  }
}
