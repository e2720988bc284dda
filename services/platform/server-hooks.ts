import type { DescMethod } from "@bufbuild/protobuf";
import { createContextKey } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import {
  readBearerToken,
  refuseBearerToken,
  type SessionClaims,
  type TokenDeps,
  type VerificationKeys,
} from "./access-token.ts";
import { type Admission, type CallKind, createAdmission, type Permit } from "./admission.ts";
import { createTrustedProxies } from "./client.ts";
import type { Config } from "./config.ts";
import { ServiceError } from "./errors.ts";
import { DEFAULT_BODY_BYTES, type MethodPolicy, policyOf } from "./policy.ts";
import type { Clock } from "./process.ts";
import {
  createRateLimiter,
  type RateLimitResult,
  rateLimitHeaders,
  refuseExceeded,
  requestKeys,
} from "./rate-limiter.ts";

const noSchemas = (): never => {
  throw new Error("routes have no JSON schemas: the protos have the rules of messages");
};
/** Fastify's own compilers of schemas would be a hundred modules to load. */
export const schemaController = {
  compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas },
};

/** The properties of a call that a port checks before it reads the body. */
export type CallHead = {
  method: DescMethod;
  authorization: string | undefined;
  /** The client's address. */
  address: string;
  /** Whether a gateway forwards the call, which has counted it. */
  isForwarded: boolean;
};

/** A call whose body may be read. */
export type Admitted = CallHead & {
  /** The verified access token; undefined on public methods. Its session may have ended. */
  claims: SessionClaims | undefined;
  /**
   * Tells the port that the session has ended: further calls with this token do not use up the
   * user's rate limit.
   */
  onSessionEnded(): void;
  /** Undefined if nothing was counted. */
  rateLimit: RateLimitResult | undefined;
  /** Sets the headers of the response. Undefined where a gateway sends it. */
  showRateLimit?(result: RateLimitResult): void;
  permit: Permit;
};

/** The admitted call that an RPC belongs to. */
export const admittedKey = createContextKey<Admitted | undefined>(undefined, {
  description: "admitted call",
});

/**
 * Opens the checks of a process's ports.
 * @param options.admission by default what the memory of the process allows
 */
export async function openGate(
  config: Config,
  keys: VerificationKeys,
  options: { log: Logger; clock: Clock; admission?: Admission | undefined },
) {
  const {
    log,
    clock,
    admission = createAdmission({ streamsPerUser: config.aiStreamsPerUser }),
  } = options;
  const tokens: TokenDeps = { config, keys, clock };
  const { openRedis } = config.redisUrl ? await import("./redis.ts") : {};
  const redis = await openRedis?.(config.redisUrl ?? [], log);
  const rateLimiter = config.rateLimits ? createRateLimiter(redis, clock) : undefined;
  const proxies = createTrustedProxies(config.trustProxy, log);

  /**
   * Authenticates, rate-limits and admits a call by its headers alone.
   * @throws ServiceError
   */
  async function gate(call: CallHead): Promise<Admitted> {
    const { method, address, isForwarded } = call;
    const policy = policyOf(method);
    const needsToken = policy !== undefined && policy.access !== Access.PUBLIC;
    const claims = needsToken ? await readBearerToken(tokens, call.authorization) : undefined;
    if (needsToken && !claims) throw unauthenticated();
    const keys = policy && !isForwarded ? requestKeys(policy.limits, claims?.userId, address) : [];
    const rateLimit = keys.length > 0 ? await rateLimiter?.consume(keys) : undefined;
    const onSessionEnded = () => claims && refuseBearerToken(tokens, call.authorization); // public methods ignore tokens
    try {
      if (rateLimit && policy) refuseExceeded(rateLimit, policy.limits);
      const hasShare = !isForwarded && (claims || !proxies.isTrusted(address));
      const permit = admission.acquire(callKind(method, policy), {
        userId: isForwarded ? undefined : claims?.userId,
        address: hasShare ? address : undefined,
      });
      return { ...call, claims, onSessionEnded, rateLimit, permit };
    } catch (error) {
      if (rateLimit && error instanceof ServiceError)
        error.headers.push(...rateLimitHeaders(rateLimit));
      throw error;
    }
  }

  return { gate, admission, proxies, rateLimiter, redis };
}

export type RequestGate = Awaited<ReturnType<typeof openGate>>["gate"];

export const unauthenticated = () =>
  new ServiceError(
    Reason.UNAUTHENTICATED,
    "The access token is missing, invalid or expired. Please sign in.",
  );

/** Methods without a policy are those of health and reflection. */
function callKind({ methodKind }: DescMethod, policy: MethodPolicy | undefined): CallKind {
  if (!policy) return methodKind === "unary" ? "probe" : "watch";
  if (methodKind !== "unary") return "user-stream";
  return policy.maxBodyBytes > DEFAULT_BODY_BYTES ? "long-running" : "default";
}

/** The parts of the hook that differ between the ports. */
export type Port = {
  gate: RequestGate | undefined;
  /** The head of the call that a request makes; undefined for a request that is no call. */
  headOf(request: FastifyRequest): CallHead | undefined;
  /**
   * Runs first: headers of every response, and checks that need no token, such as draining.
   * @throws ServiceError
   */
  onRequest(request: FastifyRequest, reply: FastifyReply): void;
  /** Runs once the response has ended or its client has disconnected. */
  onClose?(request: FastifyRequest, reply: FastifyReply): void;
  /** Called if the gate refuses a call. By default the request fails with the error. */
  onRefused?(request: FastifyRequest, error: unknown): void;
};

declare module "fastify" {
  interface FastifyRequest {
    admitted: Admitted | undefined;
  }
}

/**
 * Adds the hook of every request: request id, authentication, rate limit, admission. The body is
 * read after it.
 */
export function addServerHooks(app: FastifyInstance, port: Port): void {
  app.decorateRequest("admitted", undefined);
  app.addHook("onRequest", (request, reply, done) => {
    let isClosed = false;
    reply.raw.once("close", () => {
      isClosed = true;
      request.admitted?.permit.release();
      port.onClose?.(request, reply);
    });
    reply.header("x-request-id", request.id);
    const admit = (admitted: Admitted) => {
      request.admitted = admitted;
      if (isClosed) admitted.permit.release();
      admitted.showRateLimit = (result) =>
        void reply.headers(Object.fromEntries(rateLimitHeaders(result)));
      if (admitted.rateLimit) admitted.showRateLimit(admitted.rateLimit);
      done();
    };
    const refuse = (error: Error) => {
      port.onRefused?.(request, error);
      done(port.onRefused ? undefined : error);
    };
    // Without a promise, an error is sent before the server reads more of the request.
    try {
      port.onRequest(request, reply);
    } catch (error) {
      return done(error as Error);
    }
    if (reply.sent) return;
    const head = port.gate && port.headOf(request);
    if (head) port.gate?.(head).then(admit, refuse);
    else done();
  });
}
