import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";

/** What the gateway tells the services beside the message; they believe it because of the secret. */
const CLIENT_ADDRESS = "x-gatehouse-client-address";
const CLIENT_AGENT = "x-gatehouse-client-agent";
const SECRET = "x-gatehouse-secret";
const REQUEST_ID = "x-request-id";
const TRACEPARENT = "traceparent";

const MAX_AGENT_LENGTH = 400;
// Node takes Latin-1 in header values, gRPC metadata only these; a token has no others
const PRINTABLE = /^[\x20-\x7e]+$/;

/**
 * Makes the metadata of the call behind a request: the access token as the client sent it, the request id, and who the
 * client is.
 */
export function createMetadata(
  clientAddress: (request: IncomingMessage) => string,
  secret: string | undefined,
  traceparentOf: (request: FastifyRequest) => string | undefined = () => undefined,
): (request: FastifyRequest) => Headers {
  return (request) => {
    const { authorization, "user-agent": agent } = request.headers;
    const headers = new Headers();
    if (authorization !== undefined && PRINTABLE.test(authorization)) headers.set("authorization", authorization);
    headers.set(REQUEST_ID, request.id);
    headers.set(CLIENT_ADDRESS, clientAddress(request.raw));
    if (agent) headers.set(CLIENT_AGENT, encodeURIComponent(agent.slice(0, MAX_AGENT_LENGTH)));
    if (secret !== undefined) headers.set(SECRET, secret);
    const traceparent = traceparentOf(request);
    if (traceparent !== undefined) headers.set(TRACEPARENT, traceparent);
    return headers;
  };
}
