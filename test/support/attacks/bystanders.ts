import { setTimeout as wait } from "node:timers/promises";
import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Health } from "../../../gen/health/v1/health_pb.ts";
import type { SignedIn, TestUser } from "../accounts.ts";
import { conversationOf } from "../ai/calls.ts";
import { bearer, randomAddress, sendHttp } from "../http/client.ts";

/** Time between two rounds of calls, in ms. */
const PACE_MS = 50;
export const BYSTANDER_CALLS = ["profile", "login", "chat", "health"] as const;
type Name = (typeof BYSTANDER_CALLS)[number];
/** Latencies in ms, and what failed. */
export type Served = { latencies: Record<Name, number[]>; failures: string[] };

/**
 * One user has a token, and others sign in in turn: too many sessions end the oldest, and few
 * callers may wait for one account.
 */
type Users = { accessToken: SignedIn["accessToken"]; signingIn: TestUser[] };

/** Other callers behind the trusted proxy 127.0.0.1, half of them over gRPC. */
export function createBystanders(urls: { rest: string; grpc: string }, users: Users) {
  const transport = createGrpcTransport({ baseUrl: urls.grpc });
  const clients = {
    auth: createClient(AuthService, transport),
    user: createClient(UserService, transport),
    ai: createClient(AIService, transport),
    health: createClient(Health, transport),
  };
  const calls = callsOf(urls.rest, clients, users);

  /** Calls at a steady pace until something has ended. */
  async function callUntil(end: Promise<unknown>): Promise<Served> {
    const served: Served = {
      latencies: { profile: [], login: [], chat: [], health: [] },
      failures: [],
    };
    const pending: Promise<void>[] = [];
    let isOver = false;
    const over = end.finally(() => {
      isOver = true;
    });
    for (let round = 0; !isOver; round++) {
      for (const name of BYSTANDER_CALLS) {
        const startedAt = performance.now();
        const done = () => void served.latencies[name].push(performance.now() - startedAt);
        const fail = (error: Error) => void served.failures.push(`${name}: ${error.message}`);
        pending.push(calls[name](round % 2 === 0).then(done, fail));
      }
      await wait(PACE_MS);
    }
    await Promise.all([over, ...pending]);
    return served;
  }
  return { callUntil };
}

type Clients = {
  auth: Client<typeof AuthService>;
  user: Client<typeof UserService>;
  ai: Client<typeof AIService>;
  health: Client<typeof Health>;
};

function callsOf(url: string, grpc: Clients, { accessToken, signingIn }: Users) {
  const conversation = conversationOf("case: plain");
  const elsewhere = () => ({ "x-forwarded-for": randomAddress() });
  const headers = () => ({ ...elsewhere(), ...bearer(accessToken) });
  const rest = async (method: string, path: string, body?: unknown, more = elsewhere()) => {
    const { status } = await sendHttp(url, method, path, body, more);
    if (status !== 200) throw new Error(`${method} ${path} answered ${status}`);
  };
  let logins = 0;
  const credentials = () => signingIn[logins++ % signingIn.length]?.credentials ?? {};
  const calls: Record<Name, (isRest: boolean) => Promise<unknown>> = {
    profile: (isRest) =>
      isRest
        ? rest("GET", "/user/profile", undefined, headers())
        : grpc.user.getProfile({}, { headers: headers() }),
    login: (isRest) =>
      isRest
        ? rest("POST", "/auth/login", credentials())
        : grpc.auth.login(credentials(), { headers: elsewhere() }),
    chat: (isRest) =>
      isRest
        ? rest("POST", "/ai/chat", conversation, headers())
        : grpc.ai.chat(conversation, { headers: headers() }),
    health: (isRest) =>
      isRest ? rest("GET", "/health/ready") : grpc.health.check({}, { headers: elsewhere() }),
  };
  return calls;
}

/** The value that a share of the latencies does not exceed, in ms. */
export function quantile(latencies: readonly number[], share: number): number {
  const sorted = latencies.toSorted((a, b) => a - b);
  return Math.round(sorted[Math.floor(sorted.length * share)] ?? Number.NaN);
}
