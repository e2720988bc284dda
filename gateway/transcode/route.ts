import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { ConnectError } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../../services/platform/errors.ts";
import type { HttpBinding } from "./binding.ts";
import type { Cookies } from "./cookies.ts";
import { toHttpError } from "./errors.ts";
import type { Call, OpenCalls } from "./inflight.ts";
import { openCall } from "./inflight.ts";
import { readRequest } from "./request.ts";
import { passOn, sendError, sendMessage } from "./response.ts";
import { sendStream } from "./sse.ts";

/** What the routes of all methods share. */
export type Transcoder = {
  transport: Transport;
  cookies: Cookies;
  /** Metadata of the call that a request makes. */
  metadata: (request: FastifyRequest) => Headers;
  /** Whether the request comes from a page that may act for its user. */
  isOwnSite: (request: FastifyRequest) => boolean;
  /** Logs a failure that nobody foresaw. */
  report: (thrown: unknown, request: FastifyRequest) => void;
  /** Silence in an event stream after which a comment is sent, in milliseconds. */
  keepAliveMs: number;
  /** The calls under way. */
  calls: OpenCalls;
  /** Runs a job now, or in line where others have kept the process busy. */
  soon: (job: () => void) => void;
};

/** Adds the route of one method. */
export function addRoute(app: FastifyInstance, rule: HttpBinding, transcoder: Transcoder): void {
  const { cookies, calls, soon, isOwnSite, report } = transcoder;
  const answer =
    rule.method.methodKind === "unary" ? unary(rule, rule.method, transcoder) : stream(rule, rule.method, transcoder);
  app.route({
    method: rule.httpMethod,
    url: rule.path,
    bodyLimit: rule.maxBodyBytes,
    config: { answerBytes: rule.policy.answerBytes },
    handler: async (request, reply) => {
      const call = openCall(reply.raw, calls, soon);
      try {
        if (rule.csrfProtected && !isOwnSite(request)) {
          throw new ServiceError(Reason.CROSS_SITE, "This request comes from another site.");
        }
        await answer(request, reply, call);
      } catch (thrown) {
        const failed = toHttpError(call.reasonFor(thrown));
        call.stop(); // whatever threw, nothing may go on for nobody
        if (failed.isInternal) report(thrown, request);
        if (thrown instanceof ConnectError) passOn(thrown.metadata, reply);
        sendError(failed, reply, rule, cookies);
      } finally {
        call.end();
      }
      return reply;
    },
  });
}

type Answer = (request: FastifyRequest, reply: FastifyReply, call: Call) => Promise<void>;

function unary(rule: HttpBinding, method: DescMethodUnary, { transport, metadata, cookies }: Transcoder): Answer {
  return async (request, reply, { signal }) => {
    const { header, input } = await prepare(rule, request, reply, metadata, (announced, readable) =>
      transport.unary(method, signal, undefined, announced, readable),
    );
    const response = await transport.unary(method, signal, undefined, header, input);
    passOn(response.header, reply);
    sendMessage(rule, reply, response, cookies);
  };
}

/** Sent with a request that can't be read, and sent back by services that have nothing else against its caller. */
const UNREADABLE = "x-gatehouse-unreadable";

/**
 * Reads the request. One that can't be read is announced to the services all the same, so that they first say who may
 * call, and how often, as they do of every other, and what rules the rest of it breaks.
 */
async function prepare(
  rule: HttpBinding,
  request: FastifyRequest,
  reply: FastifyReply,
  metadata: Transcoder["metadata"],
  announce: (header: Headers, readable: MessageShape<DescMessage>) => Promise<unknown>,
): Promise<{ header: Headers; input: MessageShape<DescMessage> }> {
  const header = metadata(request);
  const { message, unread } = readRequest(rule, incoming(request));
  request.body = undefined; // what it said has been read: a provider may take minutes
  if (!unread) return { header, input: message };
  header.set(UNREADABLE, unread.extent);
  const refusal = await announce(header, message).then(
    () => undefined,
    (error: unknown) => ConnectError.from(error),
  );
  if (refusal && !refusal.metadata.has(UNREADABLE)) throw refusal;
  if (refusal) passOn(refusal.metadata, reply);
  throw unread.refusalWith((refusal && toHttpError(refusal).body.violations) ?? []);
}

function stream(rule: HttpBinding, method: DescMethodServerStreaming, transcoder: Transcoder): Answer {
  const { transport, metadata, keepAliveMs, report } = transcoder;
  return async (request, reply, call) => {
    const { header, input } = await prepare(rule, request, reply, metadata, async (announced, readable) => {
      const { message } = await transport.stream(method, call.signal, undefined, announced, one(readable));
      for await (const _ of message); // over gRPC the refusal comes with the first message
    });
    const start = () => transport.stream(method, call.signal, undefined, header, one(input));
    await sendStream(rule, reply, call, start, {
      keepAliveMs,
      report: (thrown) => report(thrown, request),
    });
  };
}

function incoming(request: FastifyRequest) {
  return {
    url: request.raw.url ?? "",
    params: request.params as Record<string, string>,
    headers: request.headers,
    body: request.body as Uint8Array | undefined,
  };
}

async function* one<T>(value: T): AsyncIterable<T> {
  yield value;
}
