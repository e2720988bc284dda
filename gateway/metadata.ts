import type { FastifyRequest } from "fastify";
import { clientAddressOf, writeClient } from "../services/platform/client.ts";

// Node accepts Latin-1 in header values, gRPC metadata only printable ASCII. Tokens contain nothing else.
const PRINTABLE = /^[\x20-\x7e]+$/;

/** Creates the metadata of a request's call: access token, request id, client, trace. */
export function createMetadata(
  secret: string | undefined,
  traceparentOf: (request: FastifyRequest) => string | undefined = () => undefined,
): (request: FastifyRequest) => Headers {
  return (request) => {
    const { authorization, "user-agent": agent = "" } = request.headers;
    const headers = new Headers();
    if (authorization !== undefined && PRINTABLE.test(authorization)) headers.set("authorization", authorization);
    headers.set("x-request-id", request.id);
    writeClient(headers, { address: clientAddressOf(request), agent }, secret);
    const traceparent = traceparentOf(request);
    if (traceparent !== undefined) headers.set("traceparent", traceparent);
    return headers;
  };
}
