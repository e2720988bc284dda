import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { constants } from "node:http2";
import { getOption } from "@bufbuild/protobuf";
import { createContextKey } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { policy } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { Health } from "../../gen/health/v1/health_pb.ts";
import type { Expected, Place, Room } from "../process/room.ts";

const NOBODYS: Expected = { use: "brief", answerBytes: 0 };

/** What the call may hold. */
export const placeKey = createContextKey<Place>(
  { fit: () => false, pile: () => false, leave() {} },
  { description: "place" },
);

/** What a call of a method is likely to need. */
export function expectedOf({ service, method }: UniversalHandler): Expected {
  const isProbe = service.typeName === Health.typeName && method.methodKind === "unary"; // to watch may take for ever
  if (isProbe) return { use: "health", answerBytes: 0 };
  const { answerBytes, maxBodyBytes } = getOption(method, policy);
  const isPatient = answerBytes > 0 || maxBodyBytes > 0 || method.methodKind !== "unary";
  return { use: isPatient ? "patient" : "brief", answerBytes };
}

/**
 * Takes each call's place until its stream is closed. Without one the stream is refused, by which clients know that it
 * may be sent again (RFC 9113 section 8.7).
 */
export function takePlaces(
  room: Room,
  expected: (req: Http2ServerRequest) => Expected | undefined,
  answer: (req: Http2ServerRequest, res: Http2ServerResponse, place: Place) => void,
): (req: Http2ServerRequest, res: Http2ServerResponse) => void {
  return (req, res) => {
    const place = room.enter(expected(req) ?? NOBODYS);
    if (!place) return res.stream.close(constants.NGHTTP2_REFUSED_STREAM);
    res.stream.once("close", place.leave);
    answer(req, res, place);
  };
}
