import type { DescMethod } from "@bufbuild/protobuf";
import { createContextKey } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { Config } from "../config/config.ts";
import type { Clock } from "../process/clock.ts";
import { ServiceError } from "../rpc/errors.ts";
import { DEFAULT_BODY_BYTES, type MethodPolicy, policyOf } from "../rpc/policy.ts";
import type { TokenDeps, VerificationKeys } from "./access-token.ts";
import {
  type Admission,
  type Caller,
  type CallKind,
  createAdmission,
  type Permit,
} from "./admission.ts";
import type { FindKey } from "./api-key-cache.ts";
import { type Credential, createAuthenticator } from "./authenticate.ts";
import { type OpenCall, openCallOf } from "./open-calls.ts";
import { createTrustedProxies } from "./proxies.ts";
import {
  type Counted,
  createRateLimiter,
  type RateLimitKey,
  type RateLimitResult,
  rateLimitHeaders,
  refuseExceeded,
  requestKeys,
} from "./rate-limiter.ts";

const noSchemas = (): never => {
  throw new Error("routes have no JSON schemas: messages are validated by the rules in the protos");
};
/** Replaces Fastify's schema compilers, which would load a hundred modules. */
export const schemaController = {
  compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas },
};

/** The part of a call that a port checks before it reads the body. */
export type CallHead = {
  method: DescMethod;
  authorization: string | undefined;
  open: OpenCall;
  /** Whether the whole request has arrived. By default, it has not. */
  isWhole?(): boolean;
};

/** Finds the session or API key of a call, for every call anew. */
type LookUp = (credential: Credential) => Promise<unknown>;

/** An admitted call, whose body may be read. */
export type Admitted = CallHead & {
  /** Undefined on public methods. Its session or key may have ended. */
  credential: Credential | undefined;
  /** The session or API key, if it was looked up while the call was counted. */
  lookup?: ReturnType<LookUp> | undefined;
  /**
   * Tells the port that the session or key has ended, so that further calls with it do not use up
   * the user's rate limit.
   */
  onCredentialEnded(): void;
  /** Undefined if the call was not counted. */
  rateLimit: RateLimitResult | undefined;
  /** Sets the rate-limit headers of the response. Undefined if a gateway sends the response. */
  showRateLimit?(result: RateLimitResult): void;
  permit: Permit;
};

/** The admitted call behind an RPC. */
export const admittedKey = createContextKey<Admitted | undefined>(undefined, {
  description: "admitted call",
});

type GateOptions = {
  log: Logger;
  clock: Clock;
  findKey: FindKey;
  /** In a process that has the services. */
  lookUp?: LookUp | undefined;
  /** By default, with limits derived from the memory of the process. */
  admission?: Admission | undefined;
  /**
   * Finds out from the headers whether the operation would refuse a call, whatever its body is.
   * @returns a function that creates the error; undefined if the call is not refused
   */
  refuseEarly?: (
    method: DescMethod,
    credential: Credential | undefined,
  ) => (() => ServiceError) | undefined;
};

/** Creates the checks shared by all ports of a process. */
export async function openGate(config: Config, keys: VerificationKeys, options: GateOptions) {
  const {
    log,
    clock,
    findKey,
    lookUp,
    refuseEarly,
    admission = createAdmission({
      streamsPerUser: config.aiStreamsPerUser,
      streamsPerServiceAccount: config.aiStreamsPerServiceAccount,
      workers: config.workers,
    }),
  } = options;
  const tokens: TokenDeps = { config, keys, clock };
  const { openRedis } = config.redisUrl ? await import("./redis.ts") : {};
  const redis = await openRedis?.(config.redisUrl ?? [], log);
  const rateLimiter = config.rateLimits ? createRateLimiter(redis, clock) : undefined;
  const proxies = createTrustedProxies(config.trustProxy, log);
  const deps = { tokens, clock, admission, rateLimiter, findKey };
  const { authenticate, refuse } = createAuthenticator(deps);

  /**
   * Authenticates, rate-limits and admits a call using only its headers.
   * @throws ServiceError
   */
  async function gate(call: CallHead): Promise<Admitted> {
    const { method, authorization, open } = call;
    const { address, isForwarded } = open;
    const policy = policyOf(method);
    const credential = await readCredential(call, policy);
    const kind = callKind(method, policy);
    const caller = isForwarded ? {} : { ...ownerOf(credential), address };
    const limited = keysOf(open, policy, credential);
    const refusal = refuseEarly?.(method, credential);
    const isExpected = () =>
      !refusal && !rateLimiter?.exceededBy(limited) && admission.hasRoom(kind, caller);
    const lookup = beginLookup(call, credential, isExpected);
    const rateLimit = limited.length > 0 ? await rateLimiter?.consume(limited) : undefined;
    try {
      if (rateLimit && policy) refuseExceeded(rateLimit, policy.limits);
      if (refusal) throw refusal();
      const permit = admission.acquire(kind, caller);
      const onCredentialEnded = () => refuse(credential, authorization);
      return { ...call, credential, lookup, onCredentialEnded, rateLimit, permit };
    } catch (error) {
      if (rateLimit && error instanceof ServiceError)
        error.headers.push(...rateLimitHeaders(rateLimit));
      throw error;
    }
  }

  /** The keys of the limits that a call counts towards; none if a gateway has counted it. */
  function keysOf(
    { address, isForwarded }: OpenCall,
    policy: MethodPolicy | undefined,
    credential: Credential | undefined,
  ): RateLimitKey[] {
    if (isForwarded || !policy || !rateLimiter) return [];
    return requestKeys(policy.limits, credential && countedAs(credential), address);
  }

  /**
   * Looks up the session or API key of a call while the call is counted, unless the call is known to
   * be refused, or its body has not arrived: the session may end before it has.
   */
  function beginLookup(
    { isWhole = () => false }: CallHead,
    credential: Credential | undefined,
    isExpected: () => boolean,
  ): ReturnType<LookUp> | undefined {
    if (!credential || !lookUp || !isWhole() || !isExpected()) return undefined;
    const lookup = lookUp(credential);
    lookup.catch(() => {}); // it fails the call, unless that is refused before
    return lookup;
  }

  /**
   * Reads the credential that a method requires.
   * @returns undefined for methods that require none
   * @throws ServiceError
   */
  async function readCredential(
    { authorization, open }: CallHead,
    policy: MethodPolicy | undefined,
  ): Promise<Credential | undefined> {
    if (policy?.access === Access.GATEWAY) assertGateway(open);
    return isProtected(policy) ? authenticate(authorization, open) : undefined;
  }

  /**
   * Admits a request that is not a call, such as one for a file.
   * @throws ServiceError
   */
  const admitRequest = ({ address, isProbe }: OpenCall): Permit =>
    admission.acquire(isProbe ? "probe" : "default", { address });

  return { gate, admitRequest, admission, proxies, rateLimiter, redis };
}

/** The checks shared by all ports of a process. */
type Checks = Awaited<ReturnType<typeof openGate>>;

/** Whether a method requires an access token or an API key. */
const isProtected = (policy: MethodPolicy | undefined) =>
  policy?.access === Access.USER || policy?.access === Access.ADMIN;

/** Whose share of the process's capacity a call uses. */
const ownerOf = (credential: Credential | undefined): Caller =>
  credential?.kind === "api-key"
    ? { userId: credential.userId, isService: credential.isService }
    : { userId: credential?.userId };

/** Whose rate limits a call counts towards. */
const countedAs = (credential: Credential): Counted =>
  credential.kind === "api-key"
    ? { userId: credential.userId, apiKey: credential }
    : { userId: credential.userId };

/**
 * Checks that a call has the secret of the gateways.
 * @throws ServiceError FORBIDDEN
 */
export function assertGateway({ isForwarded }: Pick<OpenCall, "isForwarded">): void {
  if (isForwarded) return;
  throw new ServiceError(Reason.FORBIDDEN, "Only the gateways of this deployment may call this.");
}

/** Only health and reflection methods have no policy. */
function callKind({ methodKind }: DescMethod, policy: MethodPolicy | undefined): CallKind {
  if (!policy) return methodKind === "unary" ? "probe" : "watch";
  if (methodKind !== "unary") return "user-stream";
  return policy.maxBodyBytes > DEFAULT_BODY_BYTES ? "long-running" : "default";
}

/** The parts of the hook that differ between ports. Tests may omit the checks. */
export type Port = {
  gate: Checks["gate"] | undefined;
  admitRequest?: Checks["admitRequest"] | undefined;
  /** The head of the call that a request makes; undefined if it is not a call. */
  headOf(request: FastifyRequest): CallHead | undefined;
  /**
   * Runs first: sets headers of every response and checks what needs no token, such as draining.
   * @throws ServiceError
   */
  onRequest(request: FastifyRequest, reply: FastifyReply): void;
  /** Runs once the response has ended or its client has disconnected. */
  onClose?(request: FastifyRequest, reply: FastifyReply): void;
  /** Responds to a call that the gate rejects. By default, the request fails with the error. */
  onRefused?(request: FastifyRequest, reply: FastifyReply, error: unknown): Promise<void>;
};

declare module "fastify" {
  interface FastifyRequest {
    /** The call that a request makes, once admitted. */
    admitted: Admitted | undefined;
    /** Undefined until the request is admitted. */
    permit: Permit | undefined;
  }
}

/**
 * Adds the hook that handles every request before its body is read: request id, authentication,
 * rate limit, admission.
 */
export function addServerHooks(app: FastifyInstance, port: Port): void {
  app.decorateRequest("admitted", undefined);
  app.decorateRequest("permit", undefined);
  app.addHook("onRequest", (request, reply, done) => {
    let isClosed = false;
    reply.raw.once("close", () => {
      isClosed = true;
      request.permit?.release();
      port.onClose?.(request, reply);
    });
    // V8 allocates function literals that are assigned to a property in the old space, where this
    // one would keep the request alive until the next full collection.
    const showRateLimit = (result: RateLimitResult) =>
      void reply.headers(Object.fromEntries(rateLimitHeaders(result)));
    const admit = (admitted: Admitted) => {
      request.admitted = admitted;
      request.permit = admitted.permit;
      if (isClosed) admitted.permit.release();
      admitted.showRateLimit = showRateLimit;
      if (admitted.rateLimit) showRateLimit(admitted.rateLimit);
      done();
    };
    const refuse = (error: Error) =>
      port.onRefused ? port.onRefused(request, reply, error) : done(error);
    reply.header("x-request-id", request.id);
    // Synchronous, so that an error is sent before the server reads more of the request.
    try {
      port.onRequest(request, reply);
      if (reply.sent) return;
      const head = port.headOf(request);
      if (head && port.gate) return void port.gate(head).then(admit, refuse);
      if (!head) request.permit = port.admitRequest?.(openCallOf(request.raw));
      done();
    } catch (error) {
      done(error as Error);
    }
  });
}
