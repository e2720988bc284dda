import type { Http2ServerRequest, Http2ServerResponse, IncomingHttpHeaders } from "node:http2";
import { constants } from "node:http2";
import { createConnectRouter, createContextValues } from "@connectrpc/connect";
import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { Health } from "../../gen/health/v1/health_pb.ts";
import type { App } from "../app.ts";
import { peerKey } from "../interceptors/create-call.ts";
import { plainAddress } from "../platform/address.ts";
import { requestIdOf } from "../platform/metadata.ts";
import { services } from "../platform/services.ts";
import type { Place, Room } from "../process/room.ts";
import { soon } from "../process/turns.ts";
import { fitMessage } from "./compressed.ts";
import { countUnread, endStalled, endWaiting, type Patience } from "./patience.ts";
import { expectedOf, placeKey, takePlaces } from "./places.ts";
import { reflectionHandler } from "./reflection.ts";
import { inTurns } from "./turns.ts";
import { bounded, keepEnding, readable } from "./unreadable.ts";

/** Largest message in bytes, compressed or not, of methods without a policy: health and reflection. */
const MAX_MESSAGE_BYTES = 8 * 1024;
const COMPRESSIONS = [compressionGzip, compressionBrotli];
const ENCODINGS = COMPRESSIONS.map(({ name }) => name).join();

/** Units of a gRPC deadline that can be too long. */
const SECONDS: Record<string, number> = { H: 3_600, M: 60, S: 1 };
const LONGEST_TIMER_S = 2_147_483;

/** How the port answers. */
type Options = { reflection: boolean; room: Room; patience: Patience; shutdownSignal: AbortSignal };

/** The way from HTTP/2 to the services: gRPC, gRPC-Web and Connect. */
export function createAdapter(
  app: Pick<App, "routes" | "interceptors">,
  { reflection, room, patience, shutdownSignal }: Options,
): (req: Http2ServerRequest, res: Http2ServerResponse) => void {
  const router = createConnectRouter({
    interceptors: [fitMessage, ...app.interceptors],
    requestGate: keepEnding,
    acceptCompression: COMPRESSIONS,
    readMaxBytes: MAX_MESSAGE_BYTES,
  });
  app.routes(bounded(router));
  if (reflection) router.service(ServerReflection, reflectionHandler([...services, Health]));
  const methods = new Map(
    router.handlers.map((each) => [
      each.requestPath,
      { handler: readable(each, patience.requestMs), expected: expectedOf(each) },
    ]),
  );
  const endingOf = endCalls(shutdownSignal);
  const methodOf = (req: Http2ServerRequest) => methods.get(req.url.split("?", 1)[0] ?? "");
  const answer = inTurns((req, res, place) => {
    // Names the request before anybody looks at it, so that its answer, the log and the audit log say the same.
    const id = requestIdOf(req.headers["x-request-id"]);
    req.headers["x-request-id"] = id;
    res.setHeader("x-request-id", id);
    res.setHeader("grpc-accept-encoding", ENCODINGS); // whoever is refused another one has to be told
    dropEndlessDeadline(req.headers);
    endStalled(req, res, patience.readerMs);
    endWaiting(res);
    countUnread(res, place);
    tellReadably(res);
    const handler = methodOf(req)?.handler;
    const call = handler && callOf(req, res, place);
    if (!handler || !call) return void res.writeHead(handler ? 400 : 404).end();
    handler({ ...call, signal: endingOf(call.signal) })
      .then((told) => universalResponseToNodeResponse(told, res))
      .catch(() => res.stream.close(constants.NGHTTP2_INTERNAL_ERROR)); // unless nobody is there to be told
  });
  return takePlaces(room, (req) => methodOf(req)?.expected, answer);
}

/**
 * Makes what gives each call the signal that ends it: once its client has gone, in line where thousands go at once, or on
 * a shutdown. Connect's own way looks through all open calls whenever one ends.
 */
function endCalls(shutdownSignal: AbortSignal): (client: AbortSignal) => AbortSignal {
  const open = new Set<AbortController>();
  shutdownSignal.addEventListener("abort", () => {
    for (const call of open) call.abort(shutdownSignal.reason);
  });
  return (client) => {
    const call = new AbortController();
    const leave = () => {
      open.delete(call);
      call.abort(client.reason);
    };
    open.add(call);
    client.addEventListener("abort", () => soon(leave));
    if (client.aborted) leave();
    if (shutdownSignal.aborted) call.abort(shutdownSignal.reason);
    return call.signal;
  };
}

/** The call that a request is; undefined if its authority is none, such as "[". */
function callOf(req: Http2ServerRequest, res: Http2ServerResponse, place: Place): UniversalServerRequest | undefined {
  try {
    const values = createContextValues()
      .set(peerKey, plainAddress(req.socket?.remoteAddress ?? ""))
      .set(placeKey, place);
    return universalRequestFromNodeRequest(req, res, undefined, values);
  } catch {
    return undefined;
  }
}

/** Escapes no more of a failure's message than gRPC asks for: of what Connect does, grpc-js shows a colon as `%3A`. */
function tellReadably(res: Http2ServerResponse): void {
  const addTrailers = res.addTrailers.bind(res);
  res.addTrailers = (trailers) => {
    const message = trailers["grpc-message"];
    addTrailers(message ? { ...trailers, "grpc-message": encodeURI(decodeURIComponent(String(message))) } : trailers);
  };
}

/** A deadline that no timer can run for is none; Node would take it for the next millisecond. */
function dropEndlessDeadline(headers: IncomingHttpHeaders): void {
  const [, count, unit = ""] = /^(\d+)([HMS])$/.exec(String(headers["grpc-timeout"])) ?? [];
  if (Number(count) * (SECONDS[unit] ?? 0) > LONGEST_TIMER_S) delete headers["grpc-timeout"];
  if (Number(headers["connect-timeout-ms"]) > LONGEST_TIMER_S * 1_000) delete headers["connect-timeout-ms"];
}
