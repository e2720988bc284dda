import { createClient, type Transport } from "@connectrpc/connect";
import type { Logger } from "pino";
import { AuthService } from "../gen/gatehouse/account/v1/auth_service_pb.ts";
import { createRemoteKeys } from "../services/platform/access-token.ts";
import { type Admission, createAdmission } from "../services/platform/admission.ts";
import { createTrustedProxies } from "../services/platform/client.ts";
import type { Config } from "../services/platform/config.ts";
import type { Clock } from "../services/platform/process.ts";
import { createRateLimiter } from "../services/platform/rate-limiter.ts";
import { openRedis } from "../services/platform/redis.ts";
import { createRequestGate, type RequestGate } from "../services/platform/server-hooks.ts";

/** The checks of a gateway's port, and a function that closes what they use. */
export type StandaloneGate = { gate: RequestGate; admission: Admission; close(): void };

/** Opens the gate of a gateway that runs apart. It has the services' public keys and counts the limits itself. */
export async function openStandaloneGate(
  config: Config,
  transport: Transport,
  { log, clock }: { log: Logger; clock: Clock },
): Promise<StandaloneGate> {
  const redis = config.redisUrls.length > 0 ? await openRedis([...config.redisUrls], log) : undefined;
  const services = createClient(AuthService, transport);
  const keys = createRemoteKeys(async () => (await services.listKeys({})).keys);
  const admission = createAdmission({ streamsPerUser: config.aiStreamsPerUser });
  const gate = createRequestGate({
    tokens: { config, keys, clock },
    rateLimiter: config.rateLimits ? createRateLimiter(redis, clock) : undefined,
    admission,
    isTrusted: createTrustedProxies(config.trustProxy).isTrusted,
  });
  return { gate, admission, close: () => redis?.close() };
}
