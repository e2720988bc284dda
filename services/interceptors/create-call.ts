import { randomUUID } from "node:crypto";
import { createContextKey, type Interceptor } from "@connectrpc/connect";
import { type AppContext, type Call, type Client, callKey } from "../call.ts";
import { equalSecrets } from "../crypto/cipher.ts";
import { createFindSession } from "../sessions/find-session.ts";
import type { Store } from "../store/store.ts";
import { onComplete } from "./on-complete.ts";

/** Address of the socket's other end, given by the server that accepts the connection. */
export const peerKey = createContextKey<string>("127.0.0.1", { description: "peer address" });

/** Longest User-Agent that is kept, in characters. */
const MAX_AGENT = 400;

/** What belongs to one call; the rest is inherited by prototype, since copying it would be the costlier part. */
type OwnPart = Omit<Call, keyof AppContext | "em" | "query" | "findSession" | "signal"> & {
  request: { signal: AbortSignal };
  unitOfWork: Call["em"] | undefined;
};

/** Opens the call that the handler serves: who asks, from where, with a unit of work of its own. */
export function createCall(context: AppContext, store: Store, internalSecret: string | undefined): Interceptor {
  const secret = internalSecret ? Buffer.from(internalSecret) : undefined;
  const shared = {
    ...context,
    query: store.query,
    findSession: createFindSession(store, context.clock),
    get em(): Call["em"] {
      const own = this as unknown as OwnPart;
      own.unitOfWork ??= store.fork(); // not every call asks the database
      return own.unitOfWork;
    },
    get signal(): AbortSignal {
      return (this as unknown as OwnPart).request.signal;
    },
  };
  return (next) => (req) => {
    const own: OwnPart = {
      requestId: saneRequestId(req.header.get("x-request-id")),
      startedAt: performance.now(),
      traceparent: req.header.get("traceparent"),
      client: clientOf(req.header, req.contextValues.get(peerKey), secret),
      caller: undefined,
      standing: undefined,
      attempt: undefined,
      unitOfWork: undefined,
      request: req,
      onComplete: [],
    };
    req.contextValues.set(callKey, Object.assign(Object.create(shared), own));
    return onComplete(next, req, () => {
      for (const after of own.onComplete) after();
    });
  };
}

/** Who the client is. Metadata about it is believed only along with the gateway's secret. */
function clientOf(header: Headers, peer: string, internalSecret: Buffer | undefined): Client {
  const secret = header.get("x-gatehouse-secret");
  if (internalSecret && secret && equalSecrets(secret, internalSecret)) {
    return {
      address: header.get("x-gatehouse-client-address") ?? peer,
      agent: decode(header.get("x-gatehouse-client-agent") ?? "").slice(0, MAX_AGENT),
    };
  }
  return { address: peer, agent: (header.get("user-agent") ?? "").slice(0, MAX_AGENT) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The caller's request id if it is a sane one, else a new one. */
export function saneRequestId(id: unknown): string {
  return typeof id === "string" && /^[\w.-]{1,128}$/.test(id) ? id : randomUUID();
}
