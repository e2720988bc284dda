import type { Message } from "@bufbuild/protobuf";
import { createContextValues, type Transport } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { openCallOf } from "../../services/platform/gate/open-calls.ts";
import type { Origins } from "../../services/platform/gate/origins.ts";
import { admittedKey } from "../../services/platform/gate/server-hooks.ts";
import type { Clock } from "../../services/platform/process/clock.ts";
import { ServiceError } from "../../services/platform/rpc/errors.ts";
import { one } from "../../services/platform/rpc/in-process.ts";
import { writeClient } from "../../services/platform/rpc/metadata.ts";
import { type Unread, unreadFields, unreadKey } from "../../services/platform/rpc/unread.ts";
import { authorizationOf } from "../formats/authorization.ts";
import type { FormattedReply, HttpFormat } from "../formats/format.ts";
import type { HttpBinding } from "./binding.ts";
import { type CookieDeps, readTokenCookies } from "./cookies.ts";
import { readFormatted, readPathFields, readRequest } from "./request.ts";
import { forwardHeaders, sendJson, sendMessage } from "./response.ts";
import { formattedStream, ownStream, readWhole, sendStream } from "./sse.ts";

/**
 * Node accepts Latin-1 in header values, gRPC metadata only accepts printable ASCII. Tokens contain
 * nothing else.
 */
const PRINTABLE = /^[\x20-\x7e]+$/;

/** Dependencies of all routes. */
type Transcoder = CookieDeps & {
  transport: Transport;
  clock: Clock;
  /** The secret that authenticates a gateway to the services. */
  internalSecret: string | undefined;
  origins: Pick<Origins, "isOwn">;
  /** Logs an unexpected error. */
  report: (thrown: unknown, request: FastifyRequest) => void;
  keepAliveMs: number;
};

/** Adds the route of a method. Errors are handled by the server's error handler. */
export function addRoute(app: FastifyInstance, binding: HttpBinding, transcoder: Transcoder): void {
  const { transport, internalSecret, clock, origins, report, keepAliveMs } = transcoder;
  const { method, format, policy } = binding;
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    if (binding.policy.sameOrigin && !origins.isOwn(request.headers)) {
      throw new ServiceError(Reason.CROSS_SITE, "This request comes from another site.");
    }
    if (binding.requestCookies.length > 0)
      request.tokenCookies = await readTokenCookies(binding.requestCookies, request, transcoder);
    const header = metadataOf(request, format, internalSecret);
    const { message, unread, written } = readMessage(binding, request, clock);
    const { signal } = request.call;
    const context = createContextValues()
      .set(admittedKey, request.admitted) // for services in the same process
      .set(unreadKey, unread);
    if (method.methodKind === "unary") {
      const response = await transport.unary(method, signal, undefined, header, message, context);
      forwardHeaders(response.header, reply);
      sendMessage(binding, reply, response, clock);
      return reply;
    }
    const start = () => transport.stream(method, signal, undefined, header, one(message), context);
    if (written?.isWhole) {
      const response = await start();
      const text = await readWhole(written.reply, response);
      forwardHeaders(response.header, reply); // complete by now if the services are in the same process
      sendJson(reply.headers(written.reply.headers()), policy.successStatus, text);
      return reply;
    }
    const form = format && written ? formattedStream(format, written.reply) : ownStream(binding);
    await sendStream(form, reply, start, {
      keepAliveMs,
      report: (thrown) => report(thrown, request),
    });
    return reply;
  };
  const { httpMethod, path: url } = binding;
  app.route({
    method: httpMethod,
    url,
    bodyLimit: policy.maxBodyBytes,
    config: { binding },
    handler,
  });
}

/** The metadata for the call of a request: access token or API key, request id, client, trace. */
function metadataOf(
  request: FastifyRequest,
  format: HttpFormat | undefined,
  secret: string | undefined,
): Headers {
  const { "user-agent": agent = "" } = request.headers;
  const authorization = authorizationOf(request.headers, format);
  const headers = new Headers();
  if (authorization !== undefined && PRINTABLE.test(authorization))
    headers.set("authorization", authorization);
  headers.set("x-request-id", request.id);
  const { address } = openCallOf(request.raw);
  writeClient(headers, { address, agent }, secret);
  if (request.span) headers.set("traceparent", request.span.traceparent);
  return headers;
}

/** A request as read by {@link readMessage}. */
type ReadMessage = {
  message: Message;
  unread: Unread;
  /**
   * The writer of the reply in a foreign format, and whether the reply is complete instead of a
   * stream.
   */
  written?: { reply: FormattedReply; isWhole: boolean };
};

/**
 * The message for a request. If the method requires a role, an unreadable request is left for the
 * services to reject, so that they check the role first.
 */
function readMessage(rule: HttpBinding, request: FastifyRequest, clock: Clock): ReadMessage {
  const { format, bodyFields } = rule;
  try {
    if (format && bodyFields) {
      const { message, isStream, reply } = readFormatted(format, rule, request);
      const created = Math.floor(clock.now().getTime() / 1000);
      return { message, unread: {}, written: { reply: reply(created), isWhole: !isStream } };
    }
    const { message, typeErrors } = readRequest(rule, request);
    return { message, unread: unreadFields(typeErrors) };
  } catch (error) {
    if (rule.policy.access !== Access.ADMIN || !(error instanceof ServiceError)) throw error;
    return { message: readPathFields(rule, request), unread: { fault: error } };
  } finally {
    request.body = undefined; // frees memory, because the call may take minutes
  }
}
